-- Extends leases to their full TTL. It never creates a lease. A key with another value, of
-- any type, counts as not held. A lease that has more than the TTL left keeps it, so that a
-- late request with an earlier, shorter TTL takes nothing away.
--
-- KEYS the locks
-- ARGV 1 TTL in ms
--      2 ... the exact values "owner token", one per key
--
-- Returns the indexes, from 1, of the locks that are not held. The index of a lock that another
-- owner has is negative. A lock that is kept after its release has none.
--
-- Bound: two commands and up to three for each key, usually one. The client sends at most 25 keys.

local call, keys, args = redis.call, KEYS, ARGV -- local variables are faster
local values = call('MGET', unpack(keys))
local ttl, ms = args[1], tonumber(args[1])
local gt = (redis.REDIS_VERSION_NUM or 0) >= 0x70000 -- PEXPIRE has the option GT
local lost = {}
for i, key in ipairs(keys) do
  local held = values[i] == args[i + 1]
  if held and not (gt and call('PEXPIRE', key, ttl, 'GT') == 1) and call('PTTL', key) < ms then
    held = call('PEXPIRE', key, ttl) == 1
  end
  if not held then
    local other = values[i] and values[i] ~= args[i + 1] and string.sub(values[i], 1, 6) ~= '{kept}'
    lost[#lost + 1] = other and -i or i
  end
end

-- A replica must not answer that a lock is lost, because it may be behind or still empty. A
-- write fails on a replica, so the script tries one. This write never changes anything,
-- whatever the key holds.
if #lost > 0 then
  local first = math.abs(lost[1])
  local probe = redis.pcall('ZREM', keys[first], args[first + 1])
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
return lost
