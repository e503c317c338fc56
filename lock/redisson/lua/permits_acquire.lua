-- Acquires permits of an RPermitExpirableSemaphore, all or none. A repeated request with the same ids
-- is the same grant.
--
-- requires: permits
--
-- KEYS 1 the semaphore
--      2 the sorted set of the permits that are held
--      3 the channel
-- ARGV 1 PUBLISH or SPUBLISH
--      2 ms that the permits last, 0 = until they are released
--      3 ... the ids of the permits
--
-- Returns {1}     granted
--         {0, ms} too few are free; the first lease ends in ms, -1 if none does
--
-- Bound: those of permits.lua, and one command for each permit.

local key, held, wanted, now = KEYS[1], KEYS[2], #ARGV - 2, now_ms()
if redis.call('ZSCORE', held, ARGV[3]) then
  return {1}
end
reclaim(key, held, KEYS[3], ARGV[1], now)
if free_permits(key) >= wanted then
  redis.call('DECRBY', key, wanted)
  local ends = end_of(ARGV[2], now)
  for i = 3, #ARGV do
    redis.call('ZADD', held, ends, ARGV[i])
  end
  local left = redis.call('PTTL', key)
  if left > 0 then
    redis.call('PEXPIRE', held, left)
  end
  return {1}
end
local first = redis.call('ZRANGE', held, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) < tonumber(NEVER) then
  return {0, math.max(tonumber(first[2]) - now, 1)}
end
return {0, -1}
