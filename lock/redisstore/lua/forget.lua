-- Removes the state of a key.
--
-- KEYS 1 the state
-- ARGV none
--
-- Returns 1 if there was one, otherwise 0.
--
-- Bound: one command.

return redis.call('DEL', KEYS[1])
