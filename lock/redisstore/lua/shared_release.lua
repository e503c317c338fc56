-- Releases the lease of an owner on a shared lock, or removes the owner from the queue. The
-- script then grants the lock to the waiters that it no longer blocks. If the first waiter
-- leaves the queue, the script signals the next one.
--
-- requires: shared_prelude
--
-- KEYS 1 to 6 as in shared_prelude.lua
--      7 the tombstone of the owner
-- ARGV 1 owner
--      2 ms for which the tombstone refuses the owner, 0 = no tombstone; the client needs one
--        if the server may still execute a request of the owner
--      3 ms for which the server keeps the last token
--
-- Returns 1 if the owner had a lease, 2 if it had a place in the queue, otherwise 0.
--
-- Bound: the members of the owner, and one walk.

local owner = ARGV[1]
local result = 0

local expires_at = expiry_of(KEYS[1], owner)
local was_first = call('ZRANGE', KEYS[3], 0, 0)[1] == owner
if call('ZCARD', KEYS[3]) > 0 then
  init(ARGV[3])
else
  local time = call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
call('ZCARD', KEYS[4]) -- these fail on a wrong type
call('HLEN', KEYS[5])
call('HLEN', KEYS[6])

if expires_at > now then
  remove_lease(owner)
  result = 1
elseif remove_waiter(owner) then
  result = 2
end
if result > 0 then
  grant_waiters()
  local new_first = was_first and call('ZRANGE', KEYS[3], 0, 0)[1]
  if new_first then
    signal(new_first, '0') -- only the first waiter notices that a lease expires
  end
  delete_if_unused()
end

-- This comes last, because a server that is out of memory refuses only the first write.
if tonumber(ARGV[2]) > 0 then
  call('SET', KEYS[7], '1', 'PX', ARGV[2])
end
return result
