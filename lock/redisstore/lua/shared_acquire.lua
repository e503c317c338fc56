-- Takes a shared lock, or a place in its queue. One script is the try, the entry
-- into the queue, the poll that keeps a place alive, and what moves a queue on when
-- leases have ended. To ask again with the same owner is harmless.
--
-- KEYS 1 to 6 as in the shared prelude, 7 the tombstone of the owner
-- ARGV 1 owner
--      2 TTL of the lease in ms
--      3 ms for which a place lasts, 0 = do not wait
--      4 ms for which the last token is remembered
--      5 mode: r, w, p or m
--      6 how many may hold a permit; of mode m the number of members
--      7 metadata
--      8 the members, one in a line
--
-- Returns {-1}                       refused: the owner was released before
--         {1, token}                 the lease is the owner's, for the whole TTL
--         {0, mark, ms, head}        others are in the way, for so many ms at least
--                                    unless they renew, 0 = unknown; no token so
--                                    far is above mark; head is 1 if no other will
--                                    notice the end of the leases that are in the way
--
-- An owner that has the write lock and asks to read gets that instead, with the
-- same token.
--
-- Fails with WRONGTYPE, and writes nothing, if a key holds something else or the
-- lock is held, or waited for, in a mode that does not go with this one.

local owner, ttl, place = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local wish = {mode = ARGV[5], limit = tonumber(ARGV[6]), rest = ARGV[6] .. ' ' .. ARGV[7]}
if wish.mode == 'm' then
  wish.list = lines(ARGV[8])
end

if call('EXISTS', KEYS[7]) == 1 then
  return {-1}
end

clock(ARGV[4])
local mine = ends(KEYS[1], owner)
local known = call('ZSCORE', KEYS[4], owner) and call('ZSCORE', KEYS[3], owner)
local family = call('HGET', KEYS[5], '{mode}')
local fresh = call('ZCARD', KEYS[1]) == 0
call('HLEN', KEYS[6]) -- refuses a wrong type
local mode = wish.mode == 'w' and 'r' or wish.mode

local function wrong_type()
  return redis.error_reply('WRONGTYPE the lock is in use in another mode')
end

if family and family ~= mode then
  if living(KEYS[1]) > 0 or living(KEYS[4]) > 0 then
    return wrong_type()
  end
  call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
  mine, known, fresh = 0, false, true
elseif not family and not fresh then
  return wrong_type()
end

-- A message that is late asks for what is no more: for a write lock, say, that was
-- turned into one to read.
local before = (mine > now or known) and wish_of(owner)
if before and before.mode ~= wish.mode and not (mine > now and before.mode == 'w') then
  return {0, text(last), 0, 0}
end

if mine > now and before then
  trim() -- a write that a server does not refuse which is out of memory, nor those after it
  hold(owner, after(ttl))
  if before.mode ~= wish.mode then
    wish.rest = before.rest
    note(owner, wish, before.token)
    serve()
  end
  return {1, before.token}
end

if known and place > 0 then
  call('ZADD', KEYS[4], text(after(place)), owner)
end

-- What has ended is cleared away, some of it at a time. If others waited for that
-- the queue moves on.
local changed, members = fresh, 0
for _, ended in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, 16)) do
  changed = true
  members = members + drop(ended)
  if members > MOST_MEMBERS then
    break
  end
end
if mine > 0 then
  drop(owner)
end
for _, dead in ipairs(call('ZRANGEBYSCORE', KEYS[4], '-inf', text(now), 'LIMIT', 0, 16)) do
  if dead ~= owner then
    leave(dead)
    changed = true
  end
end

-- Of leases that ended with the lock, and of places that ended with the queue, this
-- is left.
local fields = wish.mode == 'm' and 2 or 1
if call('HLEN', KEYS[5]) > 1 + fields * (call('ZCARD', KEYS[1]) + call('ZCARD', KEYS[3])) then
  sweep()
end

if known then
  if changed or wish.mode ~= 'm' then
    serve()
  end
  if ends(KEYS[1], owner) > 0 then
    hold(owner, after(ttl))
    return {1, wish_of(owner).token}
  end
else
  local wanted, all = {}, true
  if call('ZCARD', KEYS[3]) > 0 then
    wanted, all = serve()
  end
  local granted = all and fits(wish, wanted)
  if granted or place > 0 then
    call('HSET', KEYS[5], '{mode}', mode)
    if wish.list then
      call('HSET', KEYS[5], '{' .. owner, ARGV[8])
    end
  end
  if granted then
    return {1, give(owner, wish, after(ttl))}
  end
  if place > 0 then
    local ticket = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] or 0
    call('ZADD', KEYS[3], text(ticket + 1), owner)
    call('ZADD', KEYS[4], text(after(place)), owner)
    note(owner, wish, '0')
  end
end

-- All or none: if one outlived the others an owner could be in part of them.
if place > 0 then
  local short = false
  for i = 3, 5 do
    short = short or call('PTTL', KEYS[i]) < 2 * place
  end
  for i = 3, 5 do
    if short and call('PTTL', KEYS[i]) < 4 * place then
      call('PEXPIRE', KEYS[i], text(4 * place))
    end
  end
end

local till = 0
if wish.mode == 'm' then
  till = blocked(wish.list)
elseif wish.mode == 'p' then
  local over = living(KEYS[1]) - wish.limit
  if over >= 0 then
    till = moment(call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', over, 1)[2])
  end
else
  till = moment(call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)
end
local head = 0
if wish.mode == 'm' and till > 0 or call('ZRANGE', KEYS[3], 0, 0)[1] == owner then
  head = 1
end
return {0, text(last), till > now and math.max(till - after(0), 1) or 0, head}
