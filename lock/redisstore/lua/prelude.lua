-- Steps that several scripts share. It is put in front of each of them.
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

-- Numbers become text by this alone: a number that Lua turns into text itself
-- loses digits.
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
  redis.call('SET', KEYS[2], text(new), 'PX', text(ms))
  redis.call('SET', KEYS[1], owner .. ' ' .. text(new), 'PX', text(px))
  return text(new)
end

-- queued tells whether anybody is in the queue. It also refuses a queue or places
-- of a wrong type, before they are written to.
local function queued()
  return redis.call('LLEN', KEYS[3]) > 0 and redis.call('ZCARD', KEYS[4]) >= 0
end

-- next_alive takes the first owner with a place out of the queue, with all that
-- stood before it, and answers it and the ms that are left of its place.
local function next_alive(now)
  while true do
    local owner = redis.call('LPOP', KEYS[3])
    if not owner then
      return nil
    end
    local ends = redis.call('ZSCORE', KEYS[4], owner)
    redis.call('ZREM', KEYS[4], owner)
    if ends and tonumber(ends) > now then
      return owner, tonumber(ends) - now
    end
  end
end

-- signal tells the process of an owner "owner token", on the channel that it
-- listens to: the prefix of the keys and the owner up to its last colon. Nothing
-- depends on it, so the right to publish may be missing.
local function signal(owner, new)
  local prefix = string.sub(KEYS[1], 1, string.find(KEYS[1], '{', 1, true) - 1)
  local client = string.match(owner, '^(.*):') or owner
  redis.pcall('PUBLISH', prefix .. client, owner .. ' ' .. new)
end

-- hand_over passes the lock on to the next in the queue, for what is left of its
-- place, and frees it if there is none.
local function hand_over(memory)
  if not queued() then
    redis.call('DEL', KEYS[1])
    return
  end
  local new, now = token()
  local owner, left = next_alive(now)
  if not owner then
    redis.call('DEL', KEYS[1])
    return
  end
  signal(owner, grant(owner, new, now, left, memory))
end

