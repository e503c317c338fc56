-- Acquires a lock, or takes a place in its queue.
--
-- The client sends this script to try, to enter the queue and to poll. A poll extends the
-- place, and grants the lock to the first waiter if the lease of the holder has expired. A
-- repeated request of the same owner is harmless. The first waiter has a message sent to a holder with
-- the mark "!", which yields.
--
-- requires: acquire_fast, queue
--
-- KEYS 1 to 4 as in tokens.lua
--      5 the tombstone of the owner
--      6 the state; missing if the client does not ask for it. See save.lua
-- ARGV 1 owner
--      2 TTL of the lock in ms
--      3 length of a place in ms; missing or 0 = do not wait
--
-- Returns {-1}                       refused: the owner has a tombstone
--         token                      granted for the full TTL
--         {1, token, state}          the same with KEYS 6; the state is '' if there is none
--         {0, token, ms, head}       taken: another owner holds the lock with that token, and
--                                    its lease expires in ms; head is 1 if the caller is first
--                                    in the queue.
--                                    ms is 0 if the caller does not wait and only waiters
--                                    block it. ms and head are 1 if the queue has more expired
--                                    places than one script removes; the next one continues.
--
-- Fails with WRONGTYPE, and writes nothing, if a key holds something else.
--
-- Bound: it removes up to MAX_POPPED places from the queue and executes a constant number of
-- other commands. LREM compares each owner in the queue.

local owner, ttl, place = ARGV[1], ARGV[2], tonumber(ARGV[3] or 0)

if redis.call('EXISTS', KEYS[5]) == 1 then
  return {-1}
end

local state
if KEYS[6] then
  state = redis.call('GET', KEYS[6]) -- before the first write, because it may fail
  if state and not string.find(state, '^%d+ %d+ ') then
    return redis.error_reply('WRONGTYPE the value of the key is not a state')
  end
  state = state or ''
end

local value = redis.call('GET', KEYS[1])
local holder, token, next_owner, unfinished
if value then
  holder, token = string.match(value, '^(.*) (%d+)$')
  if not holder then
    return redis.error_reply('WRONGTYPE the value of the key is not a lock')
  end
  if holder == owner then
    if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then -- as in renew.lua
      redis.call('PEXPIRE', KEYS[1], ttl)
    end
    return state and {1, token, state} or token
  end
else
  local new_token, now = next_token()
  local remaining
  if has_waiters() then
    next_owner, remaining, unfinished = pop_live_waiter(now)
  end
  if not unfinished and (not next_owner or next_owner == owner) then
    token = grant(owner, new_token, now, tonumber(ttl))
    return state and {1, token, state} or token
  end
  if next_owner then
    token = grant(next_owner, new_token, now, remaining)
    signal(next_owner, token)
  else
    token = format_int(new_token - 1)
  end
end

local head = 0
if place > 0 then
  local has_place = redis.call('ZSCORE', KEYS[4], owner)
  redis.call('LLEN', KEYS[3]) -- fails on a wrong type
  if has_place then
    allow_writes()
  end
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  set_place(owner, now, place)
  if not has_place then
    for _, expired in ipairs(expired_places(now, 2)) do
      remove_place(expired)
      redis.call('LREM', KEYS[3], 0, expired)
    end
    redis.call('RPUSH', KEYS[3], owner)
  end
  -- Extend both or none. If the places outlived the queue, an owner that still has a place
  -- would never enter the queue again.
  if math.min(redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[4])) < 2 * place then
    redis.call('PEXPIRE', KEYS[3], format_int(4 * place))
    redis.call('PEXPIRE', KEYS[4], format_int(4 * place))
  end
  if redis.call('LINDEX', KEYS[3], 0) == owner then
    head = 1
    local asked = not has_place and (next_owner or holder)
    if asked and string.find(asked, '!', 1, true) then
      signal(asked, '0') -- others wait now; if this is lost, the holder learns of it at its next renewal
    end
  end
end
if unfinished then
  return reply({0, token, 1, 1})
end
if next_owner and place == 0 then
  return reply({0, token, 0, 0}) -- only waiters block the caller
end
local left = redis.call('PTTL', KEYS[1])
return reply({0, token, left, head})
