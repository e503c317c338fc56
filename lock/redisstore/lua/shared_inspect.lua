-- Reads a shared lock, and writes nothing.
--
-- requires: arrival
--
-- KEYS 1 the holders
--      2 the last token
--      3 the queue
--      4 the places
--      5 the records
-- ARGV none
--
-- Returns {number of holders, number of waiters, the last token or nil, the highest token of
-- the leases or nil, up to 16 holders, ms until the members that nobody holds become free, the
-- first 100 waiters}. It reads the first 1,000 leases and returns the holders with the lowest
-- tokens. A holder is {token, ms, mode, count, metadata, client}. The count is the number of its
-- permits in mode p, and the number of its members in mode m. The ms until members become free
-- are 0 if there are holders, or if nothing is kept taken. A waiter is {mode, metadata, client,
-- ms for which it has waited}; the ms are 0 if they are not known.
-- The client is the owner up to its last colon. Leases beyond the first 1,000 count as held.
--
-- Bound: 1,100 records and 100 places.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local from = string.format('(%.0f', now)

local function client_of(owner)
  return string.match(owner, '^(.*):') or owner
end

local live = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
local holders, kept, free_at, highest = {}, 0, 0, '0'
for i = 1, #live, 2 do
  local record = redis.call('HGET', KEYS[5], live[i])
  local mode, token, limit, permits, metadata = string.match(record or '', '^(%l) (%d+) (%d+)/?(%d*) (.*)$')
  if not mode then
    return redis.error_reply('WRONGTYPE the value of the key is not a lock')
  end
  local expires_at = math.min(tonumber(live[i + 1]), 1e13) -- a score can be infinity
  if tonumber(token) > tonumber(highest) then
    highest = token
  end
  if expires_at % 1 ~= 0 then -- is_kept in shared_prelude.lua
    kept, free_at = kept + 1, math.max(free_at, expires_at)
  else
    holders[#holders + 1] = {token, math.max(expires_at - now - 1, 1), mode, mode == 'p' and (tonumber(permits) or 1) or tonumber(limit), metadata, client_of(live[i])}
  end
end
table.sort(holders, function(a, b) return tonumber(a[1]) < tonumber(b[1]) end)
for i = #holders, 17, -1 do
  holders[i] = nil
end
local held = redis.call('ZCOUNT', KEYS[1], from, '+inf') - kept
local free_in = held == 0 and kept > 0 and math.max(math.ceil(free_at) - now - 1, 1) or 0

local waiters = {}
for _, owner in ipairs(redis.call('ZRANGE', KEYS[3], 0, 99)) do
  local mode, metadata = string.match(redis.call('HGET', KEYS[5], owner) or '', '^(%l) %d+ %d+/?%d* (.*)$')
  if mode then
    waiters[#waiters + 1] = {mode, metadata, client_of(owner), waited(owner, now)}
  end
end
return {held, redis.call('ZCARD', KEYS[3]), redis.call('GET', KEYS[2]), #live > 0 and highest, holders, free_in, waiters}
