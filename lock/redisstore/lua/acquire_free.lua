-- What acquire.lua comes to if the lock is free, nobody is in its queue and the owner
-- was not released before: most that is asked for. It stands in front, behind
-- tokens.lua, because to make a function takes a script as long as a third of a
-- command.

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local new, now = token()
  return {1, grant(ARGV[1], new, now, ARGV[2], ARGV[4])}
end

