-- Gives leases their full TTL again. It never creates one, and a key that holds
-- something else, of whatever type, is one that is not held.
--
-- KEYS the locks
-- ARGV 1 TTL in ms
--      2 ... the exact values "owner token", one per key
--
-- Returns the indexes, from 1, of the locks that are not held.

local call, keys, args = redis.call, KEYS, ARGV -- locals are found faster
local values = call('MGET', unpack(keys))
local ttl = args[1]
local lost = {}
for i, key in ipairs(keys) do
  if values[i] ~= args[i + 1] or call('PEXPIRE', key, ttl) == 0 then
    lost[#lost + 1] = i
  end
end

-- A replica must not tell that a lock is lost: it may be behind, or still empty.
-- If nothing was written the attempt to write something finds that out. This one
-- changes nothing anywhere, whatever the key holds.
if #lost > 0 then
  local probe = redis.pcall('ZREM', keys[lost[1]], args[lost[1] + 1])
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
return lost
