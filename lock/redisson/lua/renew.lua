-- Renews leases of RLocks and RFairLocks. It creates none and shortens none.
--
-- requires: extend
--
-- KEYS the locks
-- ARGV 1 TTL in ms
--      2 ... the owners, one for each key
--
-- Returns the indexes, from 1, of the locks that their owners do not hold.
--
-- Bound: three commands for each key. The client sends at most 25 keys.

local lost = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('HEXISTS', key, ARGV[i + 1]) == 1 then
    extend(key, ARGV[1])
  else
    lost[#lost + 1] = i
  end
end
return #lost > 0 and refuse_on_replica(KEYS[lost[1]]) or lost
