-- Acquires a shared lock, or takes a place in its queue.
--
-- The client sends this script to try, to enter the queue and to poll. A poll extends the
-- place, and grants the lock to waiters if leases have expired. A repeated request of the same
-- owner is harmless. The first waiter has messages sent to readers and a writer that yield. An owner
-- that holds the write lock and asks for a read lock gets it in
-- exchange, with the same token. An owner whose lease keeps its members taken after its release
-- gets neither the lock nor a place.
--
-- requires: shared_prelude
--
-- KEYS 1 to 6 as in shared_prelude.lua
--      7 the tombstone of the owner
-- ARGV 1 owner
--      2 TTL of the lease in ms
--      3 length of a place in ms, 0 = do not wait
--      4 ms for which the server keeps the last token
--      5 mode: r, w, p or m
--      6 in mode p the limit of permits, or "limit/permits" for several permits; in mode m the
--        number of members
--      7 metadata
--      8 the members, one in a line; empty if the owner has sent them before
--
-- Returns {-1}                          refused: the owner has a tombstone
--         {2}                           the owner neither holds nor waits, and did not send
--                                       its members: nothing is written
--         {1, token}                    granted for the full TTL
--         {0, last token, ms, head}     taken: the blocking leases expire in ms unless they
--                                       are renewed, 0 = unknown; no token so far is above
--                                       the last token; head is 1 if only the caller notices
--                                       their expiry. A fifth element is the index, from 1, of
--                                       a member that is taken, if the owner has sent them
--
-- Fails with WRONGTYPE, and writes nothing, if a key holds something else, or if the lock is
-- in use in a mode of another family.
--
-- Bound: messages to MAX_EXPIRED readers, the owner's own members three times, MAX_EXPIRED leases with
-- MAX_MEMBERS members in all, MAX_EXPIRED places, one sweep and one walk. A poll does none of this if nothing
-- has changed.

local owner, ttl, place = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, permits = string.match(ARGV[6], '^(%d+)/?(%d*)$')
local request = {mode = ARGV[5], limit = tonumber(limit), permits = tonumber(permits) or 1, details = ARGV[6] .. ' ' .. ARGV[7]}
local members_unsent = request.mode == 'm' and ARGV[8] == ''

if redis.call('EXISTS', KEYS[7]) == 1 then
  return {-1}
end

local own_expiry = expiry_of(owner)
if type(redis.pcall('ZCARD', KEYS[3])) ~= 'number' then
  delete_abandoned_queue(redis.pcall('LLEN', KEYS[3]))
end
init(ARGV[4])
local has_place = redis.call('ZSCORE', KEYS[4], owner) and redis.call('ZSCORE', KEYS[3], owner)
local stored_family = redis.call('HGET', KEYS[5], '{mode}')
local no_leases = redis.call('ZCARD', KEYS[1]) == 0
redis.call('HLEN', KEYS[6]) -- fails on a wrong type
local family = request.mode == 'w' and 'r' or request.mode

local function wrong_type()
  return redis.error_reply('WRONGTYPE the lock is in use in another mode')
end

if stored_family and stored_family ~= family then
  if count_live() > 0 or not all_places_expired(now) then
    return wrong_type()
  end
  redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
  own_expiry, has_place, no_leases = 0, false, true
elseif not stored_family and not no_leases then
  return wrong_type()
end

if own_expiry > now and is_kept(own_expiry) then
  return {0, format_int(last_token), math.max(math.ceil(own_expiry) - from_now(0), 1), 0} -- a late request
end

-- A late request may ask for an earlier mode of the owner, for example for a write lock that
-- has since become a read lock.
local record = (own_expiry > now or has_place) and read_record(owner)
if members_unsent and not record then
  return {2}
end
if record and record.mode ~= request.mode and not (own_expiry > now and record.mode == 'w') then
  return {0, format_int(last_token), 0, 0}
end

if own_expiry > now and record then
  expire_with_last_lease() -- a server that is out of memory allows this write, and then all later ones
  set_lease(owner, math.max(own_expiry, from_now(ttl))) -- as in shared_renew.lua
  if record.mode ~= request.mode then
    request.details = record.details
    write_record(owner, request, record.token)
    grant_waiters()
  end
  return reply({1, record.token})
end

if has_place and place > 0 then
  allow_writes()
  set_place(owner, now, place + 1) -- until from_now(place)
end

-- Remove some expired leases and places. The walk below then grants the requests that they
-- blocked.
local changed, removed_members = no_leases, 0
for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', format_int(now), 'LIMIT', 0, MAX_EXPIRED)) do
  changed = true
  removed_members = removed_members + remove_lease(expired)
  if removed_members > MAX_MEMBERS then
    break
  end
end
if own_expiry > 0 then
  remove_lease(owner)
end
for _, expired in ipairs(expired_places(now, MAX_EXPIRED)) do
  if expired ~= owner then
    remove_waiter(expired)
    changed = true
  end
end

-- Leases may have expired together with the lock, and places together with the queue. Remove
-- the records that they left behind.
local holders, waiters = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[3])
if request.mode == 'm' then
  if redis.call('HLEN', KEYS[5]) > 1 + 2 * holders + 3 * waiters then
    sweep_records(MAX_SWEPT_WITH_MEMBERS)
  end
elseif redis.call('HLEN', KEYS[5]) > (extra_permits() > 0 and 2 or 1) + holders + waiters then
  sweep_records(MAX_SWEPT)
end

if has_place then
  if changed or request.mode ~= 'm' then
    grant_waiters()
  end
  if expiry_of(owner) > 0 then
    set_lease(owner, from_now(ttl))
    return reply({1, read_record(owner).token})
  end
else
  local reserved, complete = {}, true
  if request.mode == 'm' then
    request.members = split_lines(ARGV[8])
  end
  if redis.call('ZCARD', KEYS[3]) > 0 then
    reserved, complete = grant_waiters()
  elseif request.mode == 'p' then
    remove_expired_permits()
  end
  local granted = complete and can_grant(request, reserved)
  if granted or place > 0 then
    redis.call('HSET', KEYS[5], '{mode}', family)
    if request.members then
      redis.call('HSET', KEYS[5], '{' .. owner, ARGV[8])
    end
  end
  if granted then
    return reply({1, grant_request(owner, request, from_now(ttl))})
  end
  if place > 0 then
    local ticket = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', KEYS[3], format_int((ticket or 0) + 1), owner)
    set_place(owner, now, place + 1) -- until from_now(place)
    write_record(owner, request, '0')
    if not ticket and family == 'r' then
      for _, holder in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. format_int(now), '+inf', 'LIMIT', 0, MAX_EXPIRED)) do
        if string.find(holder, '!', 1, true) then
          signal(holder, '0') -- as in acquire.lua
        end
      end
    end
  end
  if request.mode == 'm' and not request.blocked_until then
    local index
    request.blocked_until, request.blocker, index = find_blocker(request.members)
    request.blocking = index or request.blocking
  end
  if request.mode == 'm' and place > 0 then
    redis.call('HSET', KEYS[5], '}' .. owner, blocker_record(request.blocker))
  end
end

-- Extend all or none: otherwise an owner could be in only some of the keys.
if place > 0 then
  local queue, places, records = redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[4]), redis.call('PTTL', KEYS[5])
  if math.min(queue, places, records) < 2 * place then
    local ms = format_int(4 * place)
    if queue < 4 * place then
      redis.call('PEXPIRE', KEYS[3], ms)
    end
    if places < 4 * place then
      redis.call('PEXPIRE', KEYS[4], ms)
    end
    if records < 4 * place then
      redis.call('PEXPIRE', KEYS[5], ms)
    end
  end
end

local expires_at = 0
if request.mode == 'm' then
  expires_at = has_place and blocked_until(owner) or request.blocked_until or 0
elseif request.mode == 'p' then
  expires_at = permits_free_at(request)
else
  expires_at = to_ms(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)
end
local head = 0
if request.mode == 'm' and expires_at > 0 or redis.call('ZRANGE', KEYS[3], 0, 0)[1] == owner then
  head = 1
end
local ms = expires_at > now and math.max(math.ceil(expires_at) - from_now(0), 1) or 0
return reply({0, format_int(last_token), ms, head, request.blocking})
