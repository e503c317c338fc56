-- Releases permits of an RPermitExpirableSemaphore and wakes waiters.
--
-- requires: permits
--
-- KEYS 1 the semaphore
--      2 the sorted set of the permits that are held
--      3 the channel
-- ARGV 1 PUBLISH or SPUBLISH
--      2 ... the ids of the permits
--
-- Returns the number of permits that were held until now.
--
-- Bound: those of permits.lua, and one command for each permit.

reclaim(KEYS[1], KEYS[2], KEYS[3], ARGV[1], now_ms())
local removed = 0
for i = 2, #ARGV do
  removed = removed + redis.call('ZREM', KEYS[2], ARGV[i])
end
if removed > 0 then
  redis.call(ARGV[1], KEYS[3], string.format('%.0f', redis.call('INCRBY', KEYS[1], removed)))
end
return removed
