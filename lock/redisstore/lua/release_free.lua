-- What release.lua comes to if the owner has the lock, nobody is in its queue and
-- nothing of the owner is unanswered. It stands in front; see acquire_free.lua.

local value = redis.call('GET', KEYS[1])
local held = value and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' '
  and string.find(value, '^%d+$', #ARGV[1] + 2)
if held and ARGV[2] == '0' and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

