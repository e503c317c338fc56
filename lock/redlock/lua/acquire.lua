-- Takes a lock that is free. It has the effect of SET key owner NX PX ttl, which other clients of
-- the format send, but refuses an owner that was given up, and extends the lease of an owner that
-- asks again.
--
-- KEYS 1 the lock
--      2 the tombstone of the owner
-- ARGV 1 owner
--      2 TTL in ms
--
-- Returns {1} if the owner has the lock, {0, ms until it expires} if another has it, with -1 ms for
-- a lock without an expiry, and {-1} if the owner was given up.
--
-- Bound: four commands.

local owner, ttl = ARGV[1], ARGV[2]
local value = redis.call('GET', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {-1}
elseif not value then
  redis.call('SET', KEYS[1], owner, 'PX', ttl)
  return {1}
end
local left = redis.call('PTTL', KEYS[1])
if value ~= owner then
  return {0, left}
elseif left < tonumber(ttl) then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return {1}
