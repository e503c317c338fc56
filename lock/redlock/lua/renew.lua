-- Extends leases to their full TTL. It never creates a lease, and takes nothing from a lease that
-- has more left.
--
-- KEYS the locks
-- ARGV 1 TTL in ms
--      2 ... the owners, one per key
--
-- Returns the indexes, from 1, of the locks that are not held. The index of a lock that another
-- owner has is negative.
--
-- Bound: two commands and two for each key. The client sends at most 25 keys.

local ttl = ARGV[1]
local values = redis.call('MGET', unpack(KEYS))
local lost = {}
for i, key in ipairs(KEYS) do
  if values[i] ~= ARGV[i + 1] then
    lost[#lost + 1] = values[i] and -i or i
  elseif redis.call('PTTL', key) < tonumber(ttl) and redis.call('PEXPIRE', key, ttl) == 0 then
    lost[#lost + 1] = i
  end
end

-- A replica may be behind, so it must not answer that a lock is lost. A write fails there, even
-- one without an effect.
if #lost > 0 then
  local first = math.abs(lost[1])
  local probe = redis.pcall('ZREM', KEYS[first], ARGV[first + 1])
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
return lost
