-- Reads a shared lock, and writes nothing.
--
-- KEYS 1 the holders
--      2 the last token
--      3 the queue
--      4 the records
-- ARGV none
--
-- Returns {number of holders, number of waiters, the last token or nil, the highest token of
-- the holders or nil, up to 16 holders}. It reads the first 1,000 holders and returns those
-- with the lowest tokens. A holder is {token, ms, mode, count, metadata}. The count is the number
-- of its permits in mode p, and the number of its members in mode m.
--
-- Bound: 1,000 records.

local call = redis.call
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local from = string.format('(%.0f', now)

local live = call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
local holders = {}
for i = 1, #live, 2 do
  local record = call('HGET', KEYS[4], live[i])
  local mode, token, limit, permits, metadata = string.match(record or '', '^(%l) (%d+) (%d+)/?(%d*) (.*)$')
  if not mode then
    return redis.error_reply('WRONGTYPE the value of the key is not a lock')
  end
  local expires_at = math.min(tonumber(live[i + 1]), 1e13) -- a score can be infinity
  holders[#holders + 1] = {token, math.max(expires_at - now - 1, 1), mode, mode == 'p' and (tonumber(permits) or 1) or tonumber(limit), metadata}
end
table.sort(holders, function(a, b) return tonumber(a[1]) < tonumber(b[1]) end)
local highest = #holders > 0 and holders[#holders][1]
for i = #holders, 17, -1 do
  holders[i] = nil
end
return {call('ZCOUNT', KEYS[1], from, '+inf'), call('ZCARD', KEYS[3]), call('GET', KEYS[2]), highest, holders}
