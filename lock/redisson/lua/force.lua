-- Takes a lock of any kind away from all its holders and wakes waiters.
--
-- requires: queue
--
-- KEYS 1 the lock
--      2 the channel of an RLock; with the owner, that of a waiter for an RFairLock
--      3 the channel of an RReadWriteLock
--      4 the queue
--      5 the ends of the places
-- ARGV 1 PUBLISH or SPUBLISH
--
-- Returns 1 if the lock was held, otherwise 0.
--
-- Bound: six commands, and three for each place that has ended.

local mode = redis.call('HGET', KEYS[1], 'mode')
if redis.call('DEL', KEYS[1]) == 0 then
  return 0
end
if mode then
  redis.call(ARGV[1], KEYS[3], mode == 'write' and '1' or '0')
  return 1
end
redis.call(ARGV[1], KEYS[2], '0')
local head = live_head(KEYS[4], KEYS[5], now_ms())
if head then
  redis.call(ARGV[1], KEYS[2] .. ':' .. head, '0')
end
return 1
