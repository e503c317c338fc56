-- Extends leases to their full TTL. It never creates a lease. A key with another value, of
-- any type, counts as not held. A lease that has more than the TTL left keeps it, so that a
-- late request with an earlier, shorter TTL takes nothing away. A TTL of 1 ms only asks: it gives no
-- expiry to a key that has none.
--
-- KEYS 1 to n the locks; if they yield, n + 1 to 2n their queues in the same order
-- ARGV 1 TTL in ms
--      2 to n + 1 the exact values "owner token"
--
-- Returns the indexes, from 1, of the locks that are not held. The index of a lock that another
-- owner has is negative. A lock that is kept after its release has none. n + i follows for the i-th lock
-- if it is held and has a queue.
--
-- Bound: two commands and up to four for each lock, usually one. The client sends at most 25 locks.

local call, keys, args = redis.call, KEYS, ARGV -- local variables are faster
local n = #args - 1
local values = call('MGET', unpack(keys, 1, n))
local ttl, ms = args[1], tonumber(args[1])
local gt = (redis.REDIS_VERSION_NUM or 0) >= 0x70000 -- PEXPIRE has the option GT
local lost, wanted = {}, {}
for i = 1, n do
  local key = keys[i]
  local held = values[i] == args[i + 1]
  if held and not (gt and call('PEXPIRE', key, ttl, 'GT') == 1) then
    local left = call('PTTL', key)
    if left < ms and (left >= 0 or ms > 1) then
      held = call('PEXPIRE', key, ttl) == 1
    end
  end
  if not held then
    local other = values[i] and values[i] ~= args[i + 1] and string.sub(values[i], 1, 6) ~= '{kept}'
    lost[#lost + 1] = other and -i or i
  elseif keys[n + i] and call('EXISTS', keys[n + i]) == 1 then
    wanted[#wanted + 1] = n + i
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
for _, i in ipairs(wanted) do
  lost[#lost + 1] = i
end
return lost
