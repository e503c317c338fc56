-- Sets, lowers or deletes the count of an RCountDownLatch.
--
-- KEYS 1 the latch
--      2 the channel
--      3 the mark of this call, which Redisson does not know
-- ARGV 1 PUBLISH or SPUBLISH
--      2 set, down or delete
--      3 the count for set
--      4 ms for which the mark lasts
--
-- Returns 1 if the count has changed, otherwise 0. A repeated call changes nothing and returns the
-- same.
--
-- Bound: five commands.

local before = redis.call('GET', KEYS[3])
if before then
  return tonumber(before)
end
local count, changed, message = redis.call('GET', KEYS[1]), 0, false
if ARGV[2] == 'set' then
  if not count then
    redis.call('SET', KEYS[1], ARGV[3])
    changed, message = 1, '1'
  end
elseif count then
  changed = 1
  if ARGV[2] == 'delete' then
    redis.call('DEL', KEYS[1])
    message = '0' -- Redisson publishes 1, which wakes none of its own waiters
  elseif redis.call('DECR', KEYS[1]) <= 0 then
    redis.call('DEL', KEYS[1])
    message = '0'
  end
end
if message then
  redis.call(ARGV[1], KEYS[2], message)
end
redis.call('SET', KEYS[3], changed, 'PX', ARGV[4])
return changed
