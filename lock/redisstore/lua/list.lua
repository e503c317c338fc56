-- Reads names of keys, and writes nothing.
--
-- KEYS none
-- ARGV 1 the cursor of SCAN
--      2 the pattern of the names
--      3 about how many keys SCAN looks at
--
-- Returns {the next cursor, "0" after the last call, the names that match}.
--
-- Bound: one SCAN. It may look at ten times as many places of a table with few keys.

return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
