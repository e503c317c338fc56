-- Sets how long a permit of an RPermitExpirableSemaphore lasts from now on.
--
-- requires: permits
--
-- KEYS 1 the semaphore
--      2 the sorted set of the permits that are held
--      3 the channel
-- ARGV 1 PUBLISH or SPUBLISH
--      2 ms that the permit lasts, 0 = until it is released
--      3 the id of the permit
--
-- Returns 1 if the permit is held, otherwise 0.
--
-- Bound: those of permits.lua.

local now = now_ms()
reclaim(KEYS[1], KEYS[2], KEYS[3], ARGV[1], now)
if not redis.call('ZSCORE', KEYS[2], ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[2], end_of(ARGV[2], now), ARGV[3])
return 1
