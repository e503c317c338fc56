-- Steps that several scripts share, put in front of their own: what keeps tokens
-- rising, and grants. What has to do with the queue is in queue.lua.
--
-- KEYS 1 the lock    string "owner token"
--      2 the token   string, the last one granted
--      3 the queue   list of the owners that wait, in order
--      4 the places  sorted set of those owners by the end of their places, in ms
--
-- The places decide who is alive, the queue only orders: an owner that is in the
-- queue and has no place is skipped.
--
-- An error does not undo what was written before it. So a script reads and
-- refuses first, then does the write that may fail, then the others.

-- Numbers become text by this alone, or as an argument of redis.call: a number that
-- Lua turns into text itself loses digits.
local function text(number)
  return string.format('%.0f', number)
end

-- token answers the next fencing token and the time in ms. Both come before the
-- first write, because this may refuse.
local function token()
  local last = redis.call('GET', KEYS[2])
  local time = redis.call('TIME')
  local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local new = us
  if last then
    if #last > 16 or not string.find(last, '^%d+$') then
      error('the last token of the lock is not a number')
    end
    new = math.max(tonumber(last) + 1, us)
  end
  if new >= 9007199254740992 then -- 2^53: beyond it numbers are not exact
    error('the tokens of the lock are used up')
  end
  return new, math.floor(us / 1000)
end

-- grant gives the lock to the owner for px ms and answers its token as text. The
-- token is remembered for memory ms after the moment that it names, so that
-- tokens rise even if the clock steps back by as much.
local function grant(owner, new, now, px, memory)
  local ms = math.floor(new / 1000) - now + tonumber(memory)
  local shown = text(new)
  redis.call('SET', KEYS[2], shown, 'PX', ms)
  redis.call('SET', KEYS[1], owner .. ' ' .. shown, 'PX', px)
  return shown
end

