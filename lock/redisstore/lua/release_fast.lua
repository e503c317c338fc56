-- The common case of release.lua: the owner holds the lock, the queue is empty, the owner
-- needs no tombstone and the lock becomes free. KEYS, ARGV and the reply are those of release.lua.
--
-- It comes before the files with functions, because the definition of a function costs a third
-- as much as a command. It leaves the variable held to release.lua.
--
-- Bound: three commands.

local value = redis.call('GET', KEYS[1])
local held = value and string.match(value, '^(.*) %d+$') == ARGV[1]
if held and not ARGV[2] and redis.call('EXISTS', KEYS[3]) == 0 then
  if KEYS[7] then
    redis.call('DEL', KEYS[1], KEYS[7]) -- as in release.lua
  else
    redis.call('DEL', KEYS[1])
  end
  return 1
end

