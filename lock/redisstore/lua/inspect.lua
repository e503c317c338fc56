-- Reads a lock, and writes nothing.
--
-- KEYS 1 the lock
--      2 its last token
--      3 its queue
--      4 its metadata; see set_metadata.lua
-- ARGV none
--
-- Returns {value of the lock, its PTTL in ms, length of the queue, the first 100 owners in
-- the queue, the last token, the metadata}. A missing value is nil.
--
-- Bound: six commands, and 100 owners.

return {
  redis.call('GET', KEYS[1]),
  redis.call('PTTL', KEYS[1]),
  redis.call('LLEN', KEYS[3]),
  redis.call('LRANGE', KEYS[3], 0, 99),
  redis.call('GET', KEYS[2]),
  redis.call('GET', KEYS[4]),
}
