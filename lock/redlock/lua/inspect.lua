-- Reads a lock.
--
-- KEYS 1 the lock
--
-- Returns {the value, ms until it expires}, with -1 ms for a lock without an expiry, or {} if nobody
-- holds the lock.
--
-- Bound: two commands.

local value = redis.call('GET', KEYS[1])
if not value then
  return {}
end
return {value, redis.call('PTTL', KEYS[1])}
