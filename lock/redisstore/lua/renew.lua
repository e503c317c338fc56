-- Gives leases their full TTL again. It never creates one, and a key that holds
-- something else, of whatever type, is one that is not held.
--
-- KEYS the locks
-- ARGV 1 TTL in ms
--      2 ... the exact values "owner token", one per key
--
-- Returns the indexes, from 1, of the locks that are not held.

local call = redis.call
local values = call('MGET', unpack(KEYS))
local lost = {}
for i = 1, #KEYS do
  if values[i] ~= ARGV[i + 1] or call('PEXPIRE', KEYS[i], ARGV[1]) == 0 then
    lost[#lost + 1] = i
  end
end

-- A replica must not tell that a lock is lost: it may be behind, or still empty.
-- If nothing was written the attempt to write something finds that out. This one
-- changes nothing anywhere, whatever the key holds.
if #lost > 0 then
  local probe = redis.pcall('ZREM', KEYS[lost[1]], ARGV[lost[1] + 1])
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
return lost
