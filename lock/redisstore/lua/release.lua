-- Releases the lock of an owner and grants it to the first live waiter, or keeps it taken by
-- nobody for some time. If the owner does not hold the lock, the script removes it from the queue.
--
-- requires: release_fast, queue
--
-- KEYS 1 to 4 as in tokens.lua
--      5 the tombstone of the owner; with 6 and 7, it may be missing if there is no tombstone
--      6 the state; see save.lua
--      7 the metadata; see set_metadata.lua. 6 and 7 are missing if the owner has no brace
-- ARGV 1 owner
--      2 ms for which the tombstone refuses the owner; missing or 0 = no tombstone. The client
--        needs one if the server may still execute a request of the owner
--      3 ms for which the lock stays taken by nobody; missing if it becomes free
--
-- Returns 1 if the owner held the lock, 2 if it had a place in the queue, otherwise 0.
--
-- Bound: it removes up to MAX_POPPED places from the queue. LREM compares each owner in it.

local owner = ARGV[1]
local result = 0

if held and ARGV[3] then
  local first = has_waiters() and redis.call('LINDEX', KEYS[3], 0)
  allow_writes()
  redis.call('SET', KEYS[1], KEPT .. string.sub(value, #owner + 1), 'PX', ARGV[3])
  if first then
    signal(first, '0') -- the first waiter must learn when the lock expires now
  end
  result = 1
elseif held then
  hand_over()
  result = 1
else
  local places = remove_place(owner)
  local was_first = places > 0 and redis.call('LINDEX', KEYS[3], 0) == owner
  local entries = redis.call('LREM', KEYS[3], 0, owner)
  if places + entries > 0 then
    result = 2
  end
  local new_first = was_first and redis.call('LINDEX', KEYS[3], 0)
  if new_first then
    signal(new_first, '0') -- the first waiter must notice that the lock expires
  end
end

if result == 1 and KEYS[7] then
  redis.call('DEL', KEYS[7]) -- an owner without metadata has a lock that nobody leads
end

-- This comes last, because a server that is out of memory refuses only the first write.
if tonumber(ARGV[2] or 0) > 0 then
  redis.call('SET', KEYS[5], '1', 'PX', ARGV[2])
end
return reply(result)
