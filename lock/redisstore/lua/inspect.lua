-- Shows a lock. It writes nothing.
--
-- KEYS 1 the lock, 2 its last token, 3 its queue
--
-- Returns {value of the lock, its ms, length of the queue, the first 16 in it,
-- the last token}; a value that is not there is nil.

return {
  redis.call('GET', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('LLEN', KEYS[3]),
  redis.call('LRANGE', KEYS[3], 0, 15),
  redis.call('GET', KEYS[2]),
}
