-- Releases an RReadWriteLock that the owner holds as a reader or as a writer, and wakes waiters if
-- they may get it.
--
-- requires: readers
--
-- KEYS 1 the lock
--      2 the channel
--      3 the tombstone of the owner
--      4 the metadata of the owner
--      5 the key of the owner's lease as a reader
-- ARGV 1 owner
--      2 PUBLISH or SPUBLISH
--      3 ms for which the tombstone refuses the owner, 0 = no tombstone
--      4 the prefix of the keys of the readers' leases
--
-- Returns 1 if the owner held the lock, otherwise 0.
--
-- Bound: ten commands, and one for each hold of a reader.

local key, publish = KEYS[1], ARGV[2]
local mode = redis.call('HGET', key, 'mode')
local held = 0
if mode then
  local alive = redis.call('DEL', KEYS[5])
  local wrote, read = redis.call('HDEL', key, ARGV[1] .. ':write'), redis.call('HDEL', key, ARGV[1])
  if wrote == 1 then
    held = 1
    if redis.call('HLEN', key) > 1 then
      redis.call('HSET', key, 'mode', 'read')
    else
      redis.call('DEL', key)
    end
    redis.call(publish, KEYS[2], '1')
  elseif read == 1 then
    held = alive
    local left = readers_left(key, ARGV[4])
    if mode == 'read' and left > 0 then
      redis.call('PEXPIRE', key, left)
    elseif mode == 'read' then
      redis.call('DEL', key)
      redis.call(publish, KEYS[2], '0')
    end
  end
end
redis.call('DEL', KEYS[4])
-- This comes last, because a server that is out of memory refuses it.
if ARGV[3] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[3])
end
return held
