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
-- A server that wants literal keys gets a script for one lease, with 1 in place of k; see scripts.go.
--
-- Bound: at most ten commands for each lease. The client sends at most 25 leases.

local redis = redis -- a local variable is faster
local match = string.match
local ttl = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local expires_at = now + ttl + 1 -- now is rounded down
local LATEST = 1e13 -- the latest expiry of a key; a score may be higher

-- held returns the mode and the expiry of the lease whose keys begin with KEYS[k], or nil if it is not held.
local function held(k, owner, token)
  local expiry = redis.pcall('ZSCORE', KEYS[k], owner)
  local expires_at = type(expiry) == 'string' and math.min(tonumber(expiry), LATEST) or 0
  if expires_at <= now or expires_at % 1 ~= 0 then -- is_kept in shared_prelude.lua
    return nil
  end
  local record = redis.pcall('HGET', KEYS[k + 1], owner)
  local mode = type(record) == 'string' and match(record, '^(%l) ' .. token .. ' [%d/]+ ')
  if mode then
    return mode, expires_at
  end
end

-- ends_soon returns whether a key with that PTTL must be extended. A TTL of 1 ms only asks, as in renew.lua.
local function ends_soon(left)
  return left < 2 * ttl and (left >= 0 or ttl > 1)
end

local lost, wanted = {}, {}
for i = 2, #ARGV do
  local k = 3 * i - 5
  local owner, token = match(ARGV[i], '^(.*) (%d+)$')
  local mode, before = held(k, owner, token)
  if mode then
    -- The expiry comes first, because a server that is out of memory refuses ZADD unless
    -- another write came before.
    local latest = tonumber(redis.call('ZREVRANGE', KEYS[k], 0, 0, 'WITHSCORES')[2])
    redis.call('PEXPIREAT', KEYS[k], string.format('%.0f', math.ceil(math.min(math.max(latest, expires_at), LATEST))))
    redis.call('ZADD', KEYS[k], string.format('%.0f', math.max(before, expires_at)), owner)
    if ends_soon(redis.call('PTTL', KEYS[k + 1])) then
      redis.call('PEXPIRE', KEYS[k + 1], string.format('%.0f', 4 * ttl))
    end
    if mode == 'm' and ends_soon(redis.call('PTTL', KEYS[k + 2])) then
      redis.call('PEXPIRE', KEYS[k + 2], string.format('%.0f', 4 * ttl))
    end
    if mode ~= 'm' and KEYS[k + 2] ~= KEYS[k + 1] and redis.call('EXISTS', KEYS[k + 2]) == 1 then
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
  local k = 3 * lost[1] - 2
  local probe = redis.pcall('ZREM', KEYS[k], '')
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
for _, i in ipairs(wanted) do
  lost[#lost + 1] = i
end
return lost
