-- Renews leases of RReadWriteLocks. It creates none, shortens none and changes no mode.
--
-- requires: extend
--
-- KEYS for each lease: the lock, and the key of the owner's lease as a reader
-- ARGV 1 TTL in ms
--      2 ... the owners, one for each lease
--
-- Returns the indexes, from 1, of the leases that their owners do not hold.
--
-- Bound: six commands for each lease. The client sends at most 25.

local lost = {}
for i = 1, #KEYS / 2 do
  local key, reader, owner = KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1]
  local found = redis.pcall('HMGET', key, owner .. ':write', owner, 'mode')
  if found.err or not found[3] then
    lost[#lost + 1] = i
  elseif found[1] then
    extend(key, ARGV[1])
  elseif found[2] and redis.call('EXISTS', reader) == 1 then
    extend(reader, ARGV[1])
    extend(key, ARGV[1])
  else
    lost[#lost + 1] = i
  end
end
return #lost > 0 and refuse_on_replica(KEYS[2 * lost[1] - 1]) or lost
