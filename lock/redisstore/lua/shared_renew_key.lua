-- Does the work of shared_renew.lua for one key of a lease. The client sends it while the slot
-- of the lease moves, because the node then refuses a script with several keys. The client
-- renews the records first, then the members if there are any, and last the holders, which
-- decide.
--
-- KEYS 1 one of the keys of the lease
-- ARGV 1 TTL in ms
--      2 "owner token"
--      3 the kind of key: r the records, k the members, h the holders
--
-- Returns {}, or {1} if the key is missing or does not show the lease.
--
-- Bound: at most six commands.

local ttl, kind = tonumber(ARGV[1]), ARGV[3]
local owner, token = string.match(ARGV[2], '^(.*) (%d+)$')
local LATEST = 1e13 -- the latest expiry of a key; a score may be higher
local held = false

if kind == 'h' then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local expiry = redis.pcall('ZSCORE', KEYS[1], owner)
  local before = type(expiry) == 'string' and math.min(tonumber(expiry), LATEST) or 0
  held = before > now and before % 1 == 0 -- is_kept in shared_prelude.lua
  if held then -- the order is that of shared_renew.lua
    local expires_at = math.max(before, now + ttl + 1) -- now is rounded down
    local latest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(math.min(math.max(latest, expires_at), LATEST))))
    redis.call('ZADD', KEYS[1], string.format('%.0f', expires_at), owner)
  end
else
  local record = kind == 'r' and redis.pcall('HGET', KEYS[1], owner)
  held = kind == 'k' and redis.call('PTTL', KEYS[1]) > 0
    or type(record) == 'string' and string.match(record, '^%l ' .. token .. ' [%d/]+ ')
  local left = redis.call('PTTL', KEYS[1])
  if held and left < 2 * ttl and (left >= 0 or ttl > 1) then -- a TTL of 1 ms only asks, as in renew.lua
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 4 * ttl))
  end
end
if held then
  return {}
end

-- A replica must not answer that a lease is lost; see shared_renew.lua.
local probe = redis.pcall('ZREM', KEYS[1], '')
if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
  return probe
end
return {1}
