-- Ends what an owner has, be it the lock, which goes to the next in the queue, or
-- its place there.
--
-- KEYS 1 to 4 as in tokens.lua, 5 the tombstone of the owner
-- ARGV 1 owner
--      2 ms for which the owner is refused from now on, 0 = not at all: for an
--        owner with a request that may still be executed
--      3 ms for which the last token is remembered
--
-- Returns 1 it had the lock, 2 it had a place in the queue, 0 it had nothing.

local owner = ARGV[1]
local done = 0

if held then
  hand_over(ARGV[3])
  done = 1
else
  local places = redis.call('ZREM', KEYS[4], owner)
  local turns = redis.call('LREM', KEYS[3], 0, owner)
  if places + turns > 0 then
    done = 2
  end
end

-- Last, because a server that is out of memory refuses no write after another.
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[5], '1', 'PX', ARGV[2])
end
return done
