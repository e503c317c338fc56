-- Takes a lock from its holder, if the holder has the given token. A lock that stays taken by
-- nobody has the token of its last holder. The token protects the next
-- holder from a request that arrives late or twice.
--
-- requires: queue
--
-- KEYS as in release.lua; 5 is not used
-- ARGV 1 token
--
-- Returns 1, or 0 if the lock is not held with that token.
--
-- Bound: it removes up to MAX_POPPED places from the queue.

local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
local owner, token = string.match(value, '^(.*) (%d+)$')
if token ~= ARGV[1] then
  return 0
end
hand_over()
if string.find(owner, '{', 1, true) then
  redis.call('DEL', KEYS[7]) -- as in release.lua
end
if owner ~= KEPT then
  signal(owner, '0') -- if this is lost, the holder learns of it at its next renewal
end
return reply(1)
