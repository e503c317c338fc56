-- Takes the lock away from whoever holds it by a token that was seen before. The
-- token keeps a request that arrives late, or twice, from the next holder.
--
-- KEYS 1 to 4 as in tokens.lua
-- ARGV 1 token
--      2 ms for which the last token is remembered
--
-- Returns 1, or 0 if the lock is not held by that token.

local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
local owner, mark = string.match(value, '^(.*) (%d+)$')
if mark ~= ARGV[1] then
  return 0
end
hand_over(ARGV[2])
signal(owner, '0') -- for others that listen: the store learns of it at its next renewal
return 1
