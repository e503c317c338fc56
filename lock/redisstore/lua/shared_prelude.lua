-- Functions for shared locks: the modes read (r), write (w), permit (p) and members (m).
--
-- requires: tokens, queue
--
-- KEYS 1 the holders  sorted set of owners by the end of their leases, in ms; expires
--                     with the last of them. An end with half a ms marks a lease that was
--                     released and keeps its members taken by nobody; see is_kept
--      2 the token    string, the last token that was granted
--      3 the queue    sorted set of the waiting owners, by their tickets
--      4 the places   sorted set of the waiting owners by the end of their places, in ms
--      5 the records  hash: owner → "mode token limit metadata" of a holder or a waiter,
--                     with token 0 for a waiter. The limit of a request for several permits
--                     is "limit/permits";
--                     "{" and owner → its members, one in a line;
--                     "}" and owner → the lease that blocks a waiter for members, see
--                     blocked_until;
--                     "{mode}" → the family of modes;
--                     "{extra}" → how many permits the holders have besides one each; missing
--                     if none;
--                     "{sweep}" → the cursor of an unfinished sweep
--      6 the members  hash: member → its owner
--
-- A lease counts until its end, whatever else the keys contain. Later scripts remove the
-- records and members of expired leases. Only the extra permits of an expired lease count until
-- a script removes the lease; each walk removes up to MAX_WALK such leases first.
--
-- An error does not undo earlier writes. A script therefore reads and refuses first, then
-- executes the write that may fail, and then the others.
--
-- Bound: see MAX_WALK and the constants below it.

local redis = redis -- a local variable is faster
local spread = unpack -- some servers need another function; see scripts.go

-- Lua limits the arguments of a call to a few thousand.
local CHUNK = 1000

-- The work of one script is bounded, whatever the number of holders, waiters and expired
-- owners. Later scripts do the rest.
--
-- One walk through the queue reads up to MAX_WALK places, skips up to MAX_SKIPPED waiters,
-- and reads up to MAX_MEMBERS names of members besides those of the last owner. One script
-- removes up to MAX_EXPIRED expired leases and as many expired places. A sweep reads about
-- MAX_SWEPT records, or MAX_SWEPT_WITH_MEMBERS if they contain names of members.
local MAX_WALK, MAX_SKIPPED, MAX_MEMBERS = 500, 128, 20000
local MAX_EXPIRED, MAX_SWEPT, MAX_SWEPT_WITH_MEMBERS = 16, 200, 24

local now  -- ms
local last_token -- the last token, or one that the clock gives if that is higher
local token_ttl -- ms for which the server keeps the last token

-- init sets now, last_token and token_ttl. Scripts call it before their first write, because
-- it may fail.
local function init(ms)
  local waiting = redis.call('ZCARD', KEYS[3])
  local token
  token, now = next_token()
  if token + waiting >= 9007199254740992 then
    error('the tokens of the lock are used up')
  end
  last_token, token_ttl = token - 1, tonumber(ms)
end

-- from_now returns the moment that is ms from now. It adds 1 because now is rounded down.
local function from_now(ms)
  return now + ms + 1
end

-- to_ms returns a score as a moment in ms, at most LATEST.
local function to_ms(score)
  return math.min(tonumber(score), LATEST)
end

-- expiry_of returns the end of a lease, or 0 if there is none.
local function expiry_of(owner)
  return to_ms(redis.call('ZSCORE', KEYS[1], owner) or 0)
end

-- count_live counts the leases that have not expired.
local function count_live()
  return redis.call('ZCOUNT', KEYS[1], '(' .. format_int(now), '+inf')
end

-- is_kept returns whether a lease with that end was released and keeps its members taken. Its
-- former owner does not hold it. The mark is in the end, because a renewal may see only the
-- holders; see shared_renew_key.lua. All other ends are whole numbers.
local function is_kept(expires_at)
  return expires_at % 1 ~= 0
end

local function split_lines(text)
  local list = {}
  for line in string.gmatch(text, '[^\n]+') do
    list[#list + 1] = line
  end
  return list
end

local function members_of(owner)
  return split_lines(redis.call('HGET', KEYS[5], '{' .. owner) or '')
end

-- read_record returns the record of a holder or a waiter, or nil if there is none.
local function read_record(owner)
  local record = redis.call('HGET', KEYS[5], owner)
  if not record then
    return nil
  end
  local mode, token, details, limit, permits = string.match(record, '^(%l) (%d+) ((%d+)/?(%d*) .*)$')
  return mode and {mode = mode, token = token, details = details, limit = tonumber(limit), permits = tonumber(permits) or 1}
end

-- extra_permits returns how many permits the holders have besides one each.
local function extra_permits()
  return tonumber(redis.call('HGET', KEYS[5], '{extra}') or 0)
end

-- add_extra_permits changes that number.
local function add_extra_permits(change)
  local extra = change ~= 0 and extra_permits() + change
  if extra and extra > 0 then
    redis.call('HSET', KEYS[5], '{extra}', format_int(extra))
  elseif extra then
    redis.call('HDEL', KEYS[5], '{extra}')
  end
end

local function write_record(owner, request, token)
  redis.call('HSET', KEYS[5], owner, request.mode .. ' ' .. token .. ' ' .. request.details)
end

-- expire_with_last_lease sets the expiry of the lock to the end of its last lease.
local function expire_with_last_lease()
  local latest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)
  if latest > now then
    redis.call('PEXPIREAT', KEYS[1], format_int(math.ceil(to_ms(latest))))
  end
end

-- extend_records sets the expiry of the records and of the members to ms if they have less than least ms left.
local function extend_records(least, ms)
  if redis.call('PTTL', KEYS[5]) < least then
    redis.call('PEXPIRE', KEYS[5], format_int(ms))
  end
  if redis.call('PTTL', KEYS[6]) < least then
    redis.call('PEXPIRE', KEYS[6], format_int(ms))
  end
end

-- set_lease gives an owner a lease until expires_at. The records outlast the lease by so much
-- that few renewals must extend them.
local function set_lease(owner, expires_at)
  redis.call('ZADD', KEYS[1], format_int(expires_at), owner)
  expire_with_last_lease()
  extend_records(2 * (expires_at - now), 4 * (expires_at - now))
end

-- grant_request grants a request until expires_at, and returns the token as text.
local function grant_request(owner, request, expires_at)
  last_token = last_token + 1
  local token = format_int(last_token)
  redis.call('SET', KEYS[2], token, 'PX', format_int(math.floor(last_token / 1000) - now + token_ttl))
  write_record(owner, request, token)
  if request.mode == 'p' then
    if extra_permits() > 0 and redis.call('ZCARD', KEYS[1]) == 0 then
      redis.call('HDEL', KEYS[5], '{extra}') -- of leases that expired with the lock
    end
    add_extra_permits(request.permits - 1)
  end
  local list = request.members or {}
  if #list > 0 and redis.call('ZCARD', KEYS[1]) == 0 and redis.call('HLEN', KEYS[6]) > 0 then
    redis.call('UNLINK', KEYS[6]) -- of leases that expired with the lock
  end
  for from = 1, #list, CHUNK / 2 do
    local fields = {}
    for i = from, math.min(from + CHUNK / 2 - 1, #list) do
      fields[#fields + 1] = list[i]
      fields[#fields + 1] = owner
    end
    redis.call('HSET', KEYS[6], spread(fields))
  end
  set_lease(owner, expires_at)
  return token
end

-- owned_members returns the members in list[from..to] that the owner has. An owner with an
-- expired lease may have lost some of its members to others.
local function owned_members(list, from, to, owner)
  local own = {}
  for i, other in ipairs(redis.call('HMGET', KEYS[6], spread(list, from, to))) do
    if other == owner then
      own[#own + 1] = list[from + i - 1]
    end
  end
  return own
end

-- remove_members removes the members of an owner, and returns their number.
local function remove_members(owner)
  local list = members_of(owner)
  for from = 1, #list, CHUNK do
    local own = owned_members(list, from, math.min(from + CHUNK - 1, #list), owner)
    if #own > 0 then
      redis.call('HDEL', KEYS[6], spread(own))
    end
  end
  return #list
end

-- remove_leases removes the leases and records of up to CHUNK / 2 owners, and returns the
-- number of their members.
local function remove_leases(owners)
  local members, fields = 0, {}
  local has_extra, extra = extra_permits() > 0, 0
  redis.call('ZREM', KEYS[1], spread(owners))
  expire_with_last_lease()
  local has_members = redis.call('HLEN', KEYS[6]) > 0
  if has_members and redis.call('ZCARD', KEYS[1]) == 0 then
    redis.call('UNLINK', KEYS[6])
    has_members = false
  end
  for _, owner in ipairs(owners) do
    if has_members then
      members = members + remove_members(owner)
    end
    local record = has_extra and read_record(owner)
    if record then
      extra = extra + record.permits - 1
    end
    fields[#fields + 1] = owner
    fields[#fields + 1] = '{' .. owner
  end
  redis.call('HDEL', KEYS[5], spread(fields))
  add_extra_permits(-extra)
  return members
end

local function remove_lease(owner)
  return remove_leases({owner})
end

-- remove_waiter removes an owner from the queue, and returns whether it was there.
local function remove_waiter(owner)
  local removed = redis.call('ZREM', KEYS[3], owner) + remove_place(owner)
  if removed > 0 then
    redis.call('HDEL', KEYS[5], owner, '{' .. owner, '}' .. owner)
  end
  return removed > 0
end

-- find_blocker returns the latest end of the leases that have any of the members, the owner
-- of that lease, and the index of a member that it has. It returns 0 if there is none.
local function find_blocker(list)
  local latest, seen, blocker, index = 0, {}, nil, nil
  if redis.call('HLEN', KEYS[6]) == 0 then
    return 0
  end
  for from = 1, #list, CHUNK do
    local owners = redis.call('HMGET', KEYS[6], spread(list, from, math.min(from + CHUNK - 1, #list)))
    for i, owner in ipairs(owners) do
      if owner and not seen[owner] then
        seen[owner] = true
        local expires_at = expiry_of(owner)
        if expires_at > latest then
          latest, blocker, index = expires_at, owner, from + i - 1
        end
      end
    end
  end
  if latest <= now then
    return 0, nil
  end
  return latest, blocker, index
end

-- blocker_record returns the record of the lease that blocks a waiter: the owner of the lease,
-- or the last token if no lease blocks the waiter. While the last token stays the same no
-- lease is granted, so none can begin to block the waiter.
local function blocker_record(blocker)
  return blocker or '}' .. (redis.call('GET', KEYS[2]) or '')
end

-- blocked_until returns the end of a lease that has any of the members for which the owner
-- waits, or 0 if there is none. It reads the members only if the lease that it found
-- last time has expired, and then only until it finds another one.
local function blocked_until(owner)
  local stored = redis.call('HGET', KEYS[5], '}' .. owner)
  if stored then
    local expires_at = expiry_of(stored)
    if expires_at > now then
      return expires_at
    elseif stored == blocker_record() then
      return 0
    end
  end
  local list, expires_at, blocker = {}, 0, nil
  for line in string.gmatch(redis.call('HGET', KEYS[5], '{' .. owner) or '', '[^\n]+') do
    list[#list + 1] = line
    if #list == CHUNK then
      expires_at, blocker = find_blocker(list)
      list = {}
      if blocker then
        break
      end
    end
  end
  if #list > 0 then
    expires_at, blocker = find_blocker(list)
  end
  redis.call('HSET', KEYS[5], '}' .. owner, blocker_record(blocker))
  return expires_at
end

-- index_of_any returns the index of the first item of the list that is in the set, or nil.
local function index_of_any(list, set)
  for i, item in ipairs(list) do
    if set[item] then
      return i
    end
  end
end

local function write_locked()
  local holder = redis.call('ZREVRANGE', KEYS[1], 0, 0)[1]
  local record = read_record(holder)
  return not record or record.mode == 'w'
end

-- remove_expired_permits removes expired leases if some lease has several permits.
local function remove_expired_permits()
  if extra_permits() > 0 then
    local expired = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', format_int(now), 'LIMIT', 0, MAX_WALK)
    if #expired > 0 then
      remove_leases(expired)
    end
  end
end

-- used_permits returns how many permits are taken.
local function used_permits()
  local live = count_live()
  return live > 0 and live + extra_permits() or 0
end

-- permits_free_at returns when so many leases have expired that a request for permits fits, or
-- 0 if it fits now. If it would have to read more than MAX_SKIPPED leases, it returns the
-- expiry of the last one that it has read.
local function permits_free_at(request)
  local missing = used_permits() + request.permits - request.limit
  if missing <= 0 then
    return 0
  end
  local first = redis.call('ZCARD', KEYS[1]) - count_live() -- the rank of the first live lease
  if extra_permits() == 0 then
    local rank = first + missing - 1
    return to_ms(redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2])
  end
  local expires_at = 0
  local leases = redis.call('ZRANGE', KEYS[1], first, first + MAX_SKIPPED - 1, 'WITHSCORES')
  for i = 1, #leases, 2 do
    local record = read_record(leases[i])
    expires_at = to_ms(leases[i + 1])
    missing = missing - (record and record.permits or 1)
    if missing <= 0 then
      break
    end
  end
  return expires_at
end

-- can_grant returns whether the holders leave room for a request. The set reserved has the
-- members that earlier waiters want.
local function can_grant(request, reserved)
  if request.mode == 'm' then
    request.blocking = index_of_any(request.members, reserved)
    if request.blocking then
      return false
    end
    request.blocked_until, request.blocker, request.blocking = find_blocker(request.members)
    return request.blocked_until == 0
  end
  if request.mode == 'p' then
    return used_permits() + request.permits <= request.limit
  end
  local live = count_live()
  return live == 0 or request.mode == 'r' and not write_locked()
end

-- grant_waiters walks through the queue. It removes expired places, and grants each request
-- that it can grant for the rest of its place. It stops at the first other request. In mode
-- members it skips that request and continues, but grants no member that an earlier waiter
-- wants. It returns the members that the remaining waiters want, and whether it has seen the
-- whole queue.
local function grant_waiters()
  local reserved, skipped, members_left = {}, 0, MAX_MEMBERS
  remove_expired_permits()
  for _ = 1, MAX_WALK do
    local owner = redis.call('ZRANGE', KEYS[3], skipped, skipped)[1]
    if not owner then
      return reserved, true
    end
    local expires_at = now + remaining_place(owner, now)
    local request = expires_at > now and read_record(owner)
    if request and request.mode == 'm' then
      if skipped == MAX_SKIPPED or members_left <= 0 then
        return reserved, false
      end
      request.members = members_of(owner)
      members_left = members_left - #request.members
    end
    if not request then
      remove_waiter(owner)
    elseif can_grant(request, reserved) then
      redis.call('ZREM', KEYS[3], owner)
      remove_place(owner)
      if request.mode == 'm' then
        redis.call('HDEL', KEYS[5], '}' .. owner)
      end
      signal(owner, grant_request(owner, request, expires_at))
    elseif request.mode ~= 'm' then
      return reserved, false
    else
      skipped = skipped + 1
      for _, member in ipairs(request.members) do
        reserved[member] = true
      end
    end
  end
  return reserved, false
end

-- delete_if_unused deletes the keys of a lock without holders and waiters. It returns whether
-- the lock has none.
local function delete_if_unused()
  if redis.call('ZCARD', KEYS[1]) > 0 or redis.call('ZCARD', KEYS[3]) > 0 then
    return false
  end
  redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6])
  return true
end

-- sweep_records removes the records of owners that neither hold nor wait. If the lock has no
-- holders and waiters it deletes all keys. Otherwise it reads about count records, and the next
-- sweep continues there.
local function sweep_records(count)
  if delete_if_unused() then
    return
  end
  local cursor = redis.call('HGET', KEYS[5], '{sweep}') or '0'
  local found = redis.call('HSCAN', KEYS[5], cursor, 'COUNT', count)
  for i = 1, #found[2], 2 do
    local field = found[2][i]
    local owner = string.match(field, '^[{}]?([^{}]*)$')
    if owner and not redis.call('ZSCORE', KEYS[1], owner) and not redis.call('ZSCORE', KEYS[3], owner) then
      redis.call('HDEL', KEYS[5], field)
    end
  end
  if found[1] == '0' then
    redis.call('HDEL', KEYS[5], '{sweep}')
  else
    redis.call('HSET', KEYS[5], '{sweep}', found[1])
  end
end

