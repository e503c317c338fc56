-- Renews leases of RFencedLocks. It creates none and shortens none.
--
-- requires: extend
--
-- KEYS for each lease: the lock and its token
-- ARGV 1 TTL in ms
--      2 ... for each lease: the owner and the token of its grant
--
-- Returns the indexes, from 1, of the leases that their owners do not hold with that token.
--
-- Bound: four commands for each lease. The client sends at most 25.

local lost = {}
for i = 1, #KEYS / 2 do
  local key = KEYS[2 * i - 1]
  if redis.pcall('HEXISTS', key, ARGV[2 * i]) == 1 and redis.pcall('GET', KEYS[2 * i]) == ARGV[2 * i + 1] then
    extend(key, ARGV[1])
  else
    lost[#lost + 1] = i
  end
end
return #lost > 0 and refuse_on_replica(KEYS[2 * lost[1] - 1]) or lost
