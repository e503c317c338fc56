-- Releases an RLock or RFencedLock and wakes one waiter of each process.
--
-- KEYS 1 the lock
--      2 the channel
--      3 the tombstone of the owner
--      4 the metadata of the owner
-- ARGV 1 owner
--      2 PUBLISH or SPUBLISH
--      3 ms for which the tombstone refuses the owner, 0 = no tombstone
--
-- Returns 1 if the owner held the lock, otherwise 0.
--
-- Bound: four commands.

local held = redis.call('HDEL', KEYS[1], ARGV[1])
if held == 1 then
  redis.call('DEL', KEYS[1])
  redis.call(ARGV[2], KEYS[2], '0')
end
redis.call('DEL', KEYS[4])
-- This comes last, because a server that is out of memory refuses it.
if ARGV[3] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[3])
end
return held
