-- Steps of the scripts for shared locks: the modes read, write, permit and
-- members. They stand behind tokens.lua and queue.lua, of which they use text, token
-- and signal.
--
-- KEYS 1 the holders  sorted set of owners by the end of their leases, in ms; ends
--                     with the last of them
--      2 the token    string, the last one granted
--      3 the queue    sorted set of the owners that wait, by their tickets
--      4 the places   sorted set of those owners by the end of their places, in ms
--      5 the records  hash: owner → "mode token limit metadata", of those that hold
--                     and of those that wait, whose token is 0;
--                     "{" and owner → its members, one in a line;
--                     "{mode}" → the family of modes
--      6 the members  hash: member → the owner that has it
--
-- A lease counts while its end is to come, whatever else there is of it: the
-- records and members of one that has ended are cleared away by those who come
-- later.
--
-- An error does not undo what was written before it. So a script reads and refuses
-- first, then does the write that may fail, then the others.

local call = redis.call

-- A function takes some thousand arguments and no more.
local CHUNK = 1000

-- What one walk through the queue does at most: places that it takes out or looks
-- at; places that it passes over; members that it reads of those. They keep a
-- script short. Who stands beyond is served by later walks.
local MOST, MOST_PASSED, MOST_MEMBERS = 1000, 128, 20000

local now  -- ms
local last -- the last token, or the clock's if that is higher
local memory

-- clock reads what every grant needs. It comes before the first write, because it
-- may refuse.
local function clock(ms)
  local waiting = call('ZCARD', KEYS[3])
  local new
  new, now = token()
  if new + waiting >= 9007199254740992 then
    error('the tokens of the lock are used up')
  end
  last, memory = new - 1, tonumber(ms)
end

-- after answers the end of what lasts for so many ms from now: now is rounded down.
local function after(ms)
  return now + ms + 1
end

-- moment reads a score that is an end.
local function moment(score)
  return math.min(tonumber(score), LATEST)
end

-- ends answers the end of a lease or a place, 0 if there is none.
local function ends(key, owner)
  return moment(call('ZSCORE', key, owner) or 0)
end

-- living counts those whose end is to come.
local function living(key)
  return call('ZCOUNT', key, '(' .. text(now), '+inf')
end

local function lines(packed)
  local list = {}
  for line in string.gmatch(packed, '[^\n]+') do
    list[#list + 1] = line
  end
  return list
end

local function members_of(owner)
  return lines(call('HGET', KEYS[5], '{' .. owner) or '')
end

-- wish_of answers what an owner has or waits for, nil if there is no record of it.
local function wish_of(owner)
  local record = call('HGET', KEYS[5], owner)
  if not record then
    return nil
  end
  local mode, token, rest, limit = string.match(record, '^(%l) (%d+) ((%d+) .*)$')
  return mode and {mode = mode, token = token, rest = rest, limit = tonumber(limit)}
end

local function note(owner, wish, token)
  call('HSET', KEYS[5], owner, wish.mode .. ' ' .. token .. ' ' .. wish.rest)
end

-- trim lets the lock end with the last of its leases.
local function trim()
  local latest = tonumber(call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)
  if latest > now then
    call('PEXPIREAT', KEYS[1], text(moment(latest)))
  end
end

-- hold gives an owner a lease until a moment. What is known of the lease outlasts
-- it, and for so long that few renewals have to see to that.
local function hold(owner, till)
  call('ZADD', KEYS[1], text(till), owner)
  trim()
  for i = 5, 6 do
    if call('PTTL', KEYS[i]) < 2 * (till - now) then
      call('PEXPIRE', KEYS[i], text(4 * (till - now)))
    end
  end
end

-- give grants a wish until a moment, and answers its token as text.
local function give(owner, wish, till)
  last = last + 1
  local new = text(last)
  call('SET', KEYS[2], new, 'PX', text(math.floor(last / 1000) - now + memory))
  note(owner, wish, new)
  local list = wish.list or {}
  if #list > 0 and call('ZCARD', KEYS[1]) == 0 and call('HLEN', KEYS[6]) > 0 then
    call('UNLINK', KEYS[6]) -- of leases that ended with the lock
  end
  for from = 1, #list, CHUNK / 2 do
    local fields = {}
    for i = from, math.min(from + CHUNK / 2 - 1, #list) do
      fields[#fields + 1] = list[i]
      fields[#fields + 1] = owner
    end
    call('HSET', KEYS[6], unpack(fields))
  end
  hold(owner, till)
  return new
end

-- part answers those of the members that the owner has: one whose lease has ended
-- may have lost some to others.
local function part(list, from, to, owner)
  local own = {}
  for i, other in ipairs(call('HMGET', KEYS[6], unpack(list, from, to))) do
    if other == owner then
      own[#own + 1] = list[from + i - 1]
    end
  end
  return own
end

-- drop clears away a lease and what is known of it, and answers how many members
-- that took.
local function drop(owner)
  local list = {}
  call('ZREM', KEYS[1], owner)
  trim()
  if call('ZCARD', KEYS[1]) == 0 then
    call('UNLINK', KEYS[6])
  elseif call('HLEN', KEYS[6]) > 0 then
    list = members_of(owner)
  end
  for from = 1, #list, CHUNK do
    local own = part(list, from, math.min(from + CHUNK - 1, #list), owner)
    if #own > 0 then
      call('HDEL', KEYS[6], unpack(own))
    end
  end
  call('HDEL', KEYS[5], owner, '{' .. owner)
  return #list
end

-- leave takes an owner out of the queue, and answers whether it was there.
local function leave(owner)
  local left = call('ZREM', KEYS[3], owner) + call('ZREM', KEYS[4], owner)
  if left > 0 then
    call('HDEL', KEYS[5], owner, '{' .. owner)
  end
  return left > 0
end

-- blocked answers when the last of the leases ends that have some of the members,
-- 0 if there is none.
local function blocked(list)
  local latest, seen = 0, {}
  if call('HLEN', KEYS[6]) == 0 then
    return 0
  end
  for from = 1, #list, CHUNK do
    local owners = call('HMGET', KEYS[6], unpack(list, from, math.min(from + CHUNK - 1, #list)))
    for _, owner in ipairs(owners) do
      if owner and not seen[owner] then
        seen[owner] = true
        latest = math.max(latest, ends(KEYS[1], owner))
      end
    end
  end
  return latest > now and latest or 0
end

local function any(list, set)
  for _, line in ipairs(list) do
    if set[line] then
      return true
    end
  end
  return false
end

local function writing()
  local holder = call('ZREVRANGE', KEYS[1], 0, 0)[1]
  local wish = wish_of(holder)
  return not wish or wish.mode == 'w'
end

-- fits tells whether the holders leave room for a wish. Wanted are the members for
-- which others wait that come before it.
local function fits(wish, wanted)
  if wish.mode == 'm' then
    return not any(wish.list, wanted) and blocked(wish.list) == 0
  end
  local live = living(KEYS[1])
  if wish.mode == 'p' then
    return live < wish.limit
  end
  return live == 0 or wish.mode == 'r' and not writing()
end

-- serve walks through the queue and grants what fits, for what is left of the
-- places. Places that have ended are taken out. It stops at the first that does
-- not fit; in mode members it goes on, but then for nothing that one before wants.
-- It answers what those want that go on waiting, and whether it has seen the whole
-- queue.
local function serve()
  local wanted, passed, left = {}, 0, MOST_MEMBERS
  for _ = 1, MOST do
    local owner = call('ZRANGE', KEYS[3], passed, passed)[1]
    if not owner then
      return wanted, true
    end
    local till = ends(KEYS[4], owner)
    local wish = till > now and wish_of(owner)
    if wish and wish.mode == 'm' then
      if passed == MOST_PASSED or left <= 0 then
        return wanted, false
      end
      wish.list = members_of(owner)
      left = left - #wish.list
    end
    if not wish then
      leave(owner)
    elseif fits(wish, wanted) then
      call('ZREM', KEYS[3], owner)
      call('ZREM', KEYS[4], owner)
      signal(owner, give(owner, wish, till))
    elseif wish.mode ~= 'm' then
      return wanted, false
    else
      passed = passed + 1
      for _, line in ipairs(wish.list) do
        wanted[line] = true
      end
    end
  end
  return wanted, false
end

-- sweep clears away what is known of owners that neither hold nor wait.
local function sweep()
  for _, field in ipairs(call('HKEYS', KEYS[5])) do
    local owner = string.match(field, '^{?([^}]*)$')
    if owner and not call('ZSCORE', KEYS[1], owner) and not call('ZSCORE', KEYS[3], owner) then
      call('HDEL', KEYS[5], field)
    end
  end
end

-- tidy leaves nothing of a lock that nobody holds or waits for.
local function tidy()
  if call('ZCARD', KEYS[1]) == 0 and call('ZCARD', KEYS[3]) == 0 then
    call('UNLINK', KEYS[4], KEYS[5], KEYS[6])
  end
end

