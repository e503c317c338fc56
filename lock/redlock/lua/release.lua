-- Deletes the lock of an owner, and may refuse requests of the owner that arrive later.
--
-- KEYS 1 the lock
--      2 the tombstone of the owner
-- ARGV 1 owner
--      2 ms for which the tombstone refuses the owner, 0 = no tombstone
--
-- Returns 1 if the owner held the lock, otherwise 0.
--
-- Bound: three commands.

local result = 0
if redis.call('GET', KEYS[1]) == ARGV[1] then
  result = redis.call('DEL', KEYS[1])
else
  -- A replica may be behind, so it must not answer that the owner holds nothing. A write fails
  -- there, even one without an effect.
  local probe = redis.pcall('ZREM', KEYS[1], ARGV[1])
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end

-- This comes last, because a server that is out of memory refuses only the first write.
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
return result
