-- Reads the count of an RCountDownLatch.
--
-- KEYS 1 the latch
-- ARGV none
--
-- Returns the count, 0 if there is none.
--
-- Bound: one command.

return tonumber(redis.call('GET', KEYS[1]) or 0)
