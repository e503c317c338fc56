-- Stores metadata that Inspect shows for the holder of a lock, in place of those in the name
-- of its owner. They are a key of their own, so no other script needs to know about them. They
-- belong to one token, so they do not count for the next holder. A release deletes them.
--
-- requires: not_held
--
-- KEYS 1 the lock, 2 the metadata  string "token metadata"
-- ARGV 1 the exact value of the lock, "owner token"
--      2 token
--      3 metadata
--      4 ms until the key expires
--
-- Returns 1, or 0 if the lock has another value.
--
-- Bound: two commands.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return not_held()
end
redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
return 1
