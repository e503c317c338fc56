-- Functions for fencing tokens and for granting a mutex.
--
-- KEYS 1 the lock    string "owner token"
--      2 the token   string, the last token that was granted
--      3 the queue   list of the waiting owners, in order
--      4 the places  sorted set of these owners by the end of their places, in ms
--
-- The places decide which waiters are alive. The queue only orders them: an owner that is in
-- the queue but has no place is skipped.
--
-- TOKEN_TTL is a text, the number of ms for which the server keeps the last token. The client defines it
-- in a line before the script.
--
-- An error does not undo earlier writes. A script therefore reads and refuses first, then
-- executes the write that may fail, and then the others.
--
-- Bound: each function executes at most two commands.

-- format_int returns a whole number as text. Lua's own conversion loses digits, so only
-- format_int and redis.call convert numbers.
local function format_int(number)
  return string.format('%.0f', number)
end

-- next_token returns the next fencing token and the time in ms. Scripts call it before their
-- first write, because it may fail.
local function next_token()
  local last = redis.call('GET', KEYS[2])
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local token = micros
  if last then
    if #last > 16 or not string.find(last, '^%d+$') then
      error('the last token of the lock is not a number')
    end
    token = math.max(tonumber(last) + 1, micros)
  end
  if token >= 9007199254740992 then -- 2^53: larger numbers are not exact
    error('the tokens of the lock are used up')
  end
  return token, math.floor(micros / 1000)
end

-- grant gives the lock to the owner for ttl ms and returns the token as text. The server keeps
-- the token for TOKEN_TTL ms after the moment that the token names. Tokens therefore rise even
-- if the clock steps back by that much.
local function grant(owner, token, now, ttl)
  local ms = math.floor(token / 1000) - now + tonumber(TOKEN_TTL)
  local token_text = format_int(token)
  redis.call('SET', KEYS[2], token_text, 'PX', ms)
  redis.call('SET', KEYS[1], owner .. ' ' .. token_text, 'PX', ttl)
  return token_text
end

