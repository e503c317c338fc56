-- Extends leases of shared locks to their full TTL. It never creates a lease. An expired lease
-- is lost, even if no script has removed it yet. A lease is also lost if it keeps its members
-- taken after its release, or if its keys hold something else. The number of members does not
-- matter.
--
-- KEYS three for each lease: the holders, the records, the members; if the lease has no members, the
--      queue if it yields, otherwise the records again
-- ARGV 1 TTL in ms
--      2 ... "owner token", one per lease
--
-- Returns the indexes, from 1, of the n leases that are not held, and then n + i for the i-th lease if it
-- yields and is held and others wait.
--
-- Bound: at most ten commands for each lease. The client sends at most 25 leases.

local call, pcall, match = redis.call, redis.pcall, string.match
local ttl = tonumber(ARGV[1])
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local expires_at = now + ttl + 1 -- now is rounded down
local LATEST = 1e13 -- the latest expiry of a key; a score may be higher

-- held returns the mode and the expiry of the lease, or nil if it is not held.
local function held(holders, records, owner, token)
  local expiry = pcall('ZSCORE', holders, owner)
  local expires_at = type(expiry) == 'string' and math.min(tonumber(expiry), LATEST) or 0
  if expires_at <= now or expires_at % 1 ~= 0 then -- is_kept in shared_prelude.lua
    return nil
  end
  local record = pcall('HGET', records, owner)
  local mode = type(record) == 'string' and match(record, '^(%l) ' .. token .. ' [%d/]+ ')
  if mode then
    return mode, expires_at
  end
end

local lost, wanted = {}, {}
for i = 2, #ARGV do
  local k = 3 * i - 5
  local owner, token = match(ARGV[i], '^(.*) (%d+)$')
  local mode, before = held(KEYS[k], KEYS[k + 1], owner, token)
  if mode then
    -- The expiry comes first, because a server that is out of memory refuses ZADD unless
    -- another write came before.
    local latest = tonumber(call('ZREVRANGE', KEYS[k], 0, 0, 'WITHSCORES')[2])
    call('PEXPIREAT', KEYS[k], string.format('%.0f', math.ceil(math.min(math.max(latest, expires_at), LATEST))))
    call('ZADD', KEYS[k], string.format('%.0f', math.max(before, expires_at)), owner)
    for extra = k + 1, mode == 'm' and k + 2 or k + 1 do
      local left = call('PTTL', KEYS[extra])
      if left < 2 * ttl and (left >= 0 or ttl > 1) then -- a TTL of 1 ms only asks, as in renew.lua
        call('PEXPIRE', KEYS[extra], string.format('%.0f', 4 * ttl))
      end
    end
    if mode ~= 'm' and KEYS[k + 2] ~= KEYS[k + 1] and call('EXISTS', KEYS[k + 2]) == 1 then
      wanted[#wanted + 1] = #ARGV + i - 2
    end
  else
    lost[#lost + 1] = i - 1
  end
end

-- A replica must not answer that a lease is lost, because it may be behind or still empty. A
-- write fails on a replica, so the script tries one. This write never changes anything,
-- because no owner is empty.
if #lost > 0 then
  local probe = pcall('ZREM', KEYS[3 * lost[1] - 2], '')
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
for _, i in ipairs(wanted) do
  lost[#lost + 1] = i
end
return lost
