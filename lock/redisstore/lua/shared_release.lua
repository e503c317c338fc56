-- Releases the lease of an owner on a shared lock, or removes the owner from the queue. The
-- script then grants the lock to the waiters that it no longer blocks. If the first waiter
-- leaves the queue, the script signals the next one. A lease in mode m can instead keep its
-- members taken by nobody for some time.
--
-- requires: shared_prelude
--
-- KEYS 1 to 6 as in shared_prelude.lua
--      7 the tombstone of the owner
-- ARGV 1 owner
--      2 ms for which the tombstone refuses the owner, 0 = no tombstone; the client needs one
--        if the server may still execute a request of the owner
--      3 ms for which the server keeps the last token
--      4 ms for which the members stay taken by nobody; missing if they become free
--
-- Returns 1 if the owner had a lease, 2 if it had a place in the queue, otherwise 0. A lease
-- that keeps its members taken is no lease of the owner.
--
-- Bound: the members of the owner, and one walk. To keep the members taken costs no more for
-- many members than for one: the script reads up to MAX_SKIPPED waiters.

local owner, keep = ARGV[1], tonumber(ARGV[4])
local result = 0

-- keep_members turns the lease into one that belongs to nobody. If it ends earlier now, the
-- waiters that it blocks must learn when. Nothing renews the lease any more, so the records need
-- not outlast it by much.
local function keep_members(before)
  local expires_at = from_now(keep) - 0.5 -- see is_kept
  allow_writes()
  redis.call('ZADD', KEYS[1], string.format('%.1f', expires_at), owner)
  expire_with_last_lease()
  extend_records(keep + 1000, keep + 1000)
  local waiting = expires_at < before and redis.call('ZRANGE', KEYS[3], 0, MAX_SKIPPED - 1) or {}
  local fields = {}
  for i, waiter in ipairs(waiting) do
    fields[i] = '}' .. waiter
  end
  local blockers = #fields > 0 and redis.call('HMGET', KEYS[5], spread(fields)) or {}
  for i, blocker in ipairs(blockers) do
    if blocker == owner then
      signal(waiting[i], '0')
    end
  end
end

local expires_at = expiry_of(owner)
local was_first = redis.call('ZRANGE', KEYS[3], 0, 0)[1] == owner
if redis.call('ZCARD', KEYS[3]) > 0 then
  init(ARGV[3])
else
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
redis.call('ZCARD', KEYS[4]) -- these fail on a wrong type
redis.call('HLEN', KEYS[5])
redis.call('HLEN', KEYS[6])

local holds = expires_at > now and not is_kept(expires_at)
if holds and keep then
  keep_members(expires_at)
  result = 1
elseif holds then
  remove_lease(owner)
  result = 1
elseif remove_waiter(owner) then
  result = 2
end
if result > 0 and not (holds and keep) then
  grant_waiters()
  local new_first = was_first and redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if new_first then
    signal(new_first, '0') -- only the first waiter notices that a lease expires
  end
  delete_if_unused()
end

-- This comes last, because a server that is out of memory refuses only the first write.
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[7], '1', 'PX', ARGV[2])
end
return reply(result)
