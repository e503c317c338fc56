-- Sets the number of permits of an RPermitExpirableSemaphore that has none yet, or counts them.
--
-- requires: permits
--
-- KEYS 1 the semaphore
--      2 the sorted set of the permits that are held
--      3 the channel
-- ARGV 1 PUBLISH or SPUBLISH
--      2 the number of permits; missing to count them only
--
-- Returns {set, free, held}: set is 1 if the script has set the number.
--
-- Bound: those of permits.lua.

local set = 0
if ARGV[2] and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call(ARGV[1], KEYS[3], ARGV[2])
  set = 1
end
reclaim(KEYS[1], KEYS[2], KEYS[3], ARGV[1], now_ms())
return {set, free_permits(KEYS[1]), redis.call('ZCARD', KEYS[2])}
