-- Releases an RFairLock, or removes the owner from its queue. If the lock is free then, the script
-- wakes the first waiter.
--
-- requires: queue
--
-- KEYS 1 the lock
--      2 the channel without the owner
--      3 the tombstone of the owner
--      4 the metadata of the owner
--      5 the queue
--      6 the ends of the places
-- ARGV 1 owner
--      2 PUBLISH or SPUBLISH
--      3 ms for which the tombstone refuses the owner, 0 = no tombstone
--      4 how long a place lasts beyond the one before it, in ms
--
-- Returns 1 if the owner held the lock, otherwise 0.
--
-- Bound: it removes the places that have ended. An owner that leaves the queue changes all places
-- behind it.

local owner, queue, places = ARGV[1], KEYS[5], KEYS[6]
local held = redis.call('HDEL', KEYS[1], owner)
if held == 1 then
  redis.call('DEL', KEYS[1])
else
  local all = redis.call('LRANGE', queue, 0, -1)
  for i, other in ipairs(all) do
    if other == owner then
      advance(places, all, i + 1, tonumber(ARGV[4]))
      redis.call('LREM', queue, 0, owner)
      break
    end
  end
  redis.call('ZREM', places, owner)
end
local head = live_head(queue, places, now_ms())
if head and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call(ARGV[2], KEYS[2] .. ':' .. head, '0')
end
redis.call('DEL', KEYS[4])
-- This comes last, because a server that is out of memory refuses it.
if ARGV[3] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[3])
end
return held
