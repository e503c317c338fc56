-- The common case of acquire.lua: the lock is free, its queue is empty and the owner has no
-- tombstone. KEYS, ARGV and the reply are those of acquire.lua.
--
-- requires: tokens
--
-- It comes before queue.lua, because the definition of a function costs a third as much as a
-- command.
--
-- Bound: five commands.

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local token, now = next_token()
  return {1, grant(ARGV[1], token, now, ARGV[2], ARGV[4])}
end

