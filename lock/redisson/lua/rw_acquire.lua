-- Acquires an RReadWriteLock for a reader or a writer. A repeated request of the owner is the same
-- grant. A read request of the writer turns its lease into that of a reader, unless too much of it
-- is left.
--
-- requires: extend, metadata, readers
--
-- KEYS 1 the lock
--      2 the tombstone of the owner
--      3 the metadata of the owner
--      4 the key of the owner's lease as a reader
--      5 the channel
-- ARGV 1 owner
--      2 TTL in ms
--      3 metadata, or an empty string
--      4 read or write
--      5 the prefix of the keys of the readers' leases
--      6 PUBLISH or SPUBLISH; not used for write
--      7 the longest lease of a reader in ms
--
-- Returns {-1}    refused: the owner has a tombstone
--         {1, 0}  granted
--         {0, ms} other owners hold the lock for ms; -1 if the lock does not expire
--         {-2, ms} refused: the writer's lease has ms left, more than a reader may have
--
-- Fails with WRONGTYPE, and writes nothing, if the key holds something else.
--
-- Bound: thirteen commands, and for a writer one for each hold of a reader.

local key, owner, writer, ttl = KEYS[1], ARGV[1], ARGV[1] .. ':write', ARGV[2]
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {-1}
end
local found = redis.call('HMGET', key, 'mode', owner, writer)
local mode = found[1]
if not mode and redis.call('EXISTS', key) == 1 then
  return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
end

-- raise makes the lock last as long as this lease.
local function raise(ms)
  if redis.call('PTTL', key) < tonumber(ms) then
    redis.call('PEXPIRE', key, ms)
  end
end

if ARGV[4] == 'write' then
  if mode == 'write' and found[3] then
    extend(key, ttl)
  elseif mode == 'write' or mode == 'read' and readers_left(key, ARGV[5]) > 0 then
    return {0, redis.call('PTTL', key)}
  else
    redis.call('DEL', key) -- the leases of its readers have ended
    redis.call('HSET', key, 'mode', 'write', writer, 1)
    redis.call('PEXPIRE', key, ttl)
  end
elseif found[3] then
  local left = redis.call('PTTL', key)
  if left > tonumber(ARGV[7]) then
    return {-2, left}
  end
  extend(key, ttl)
  redis.call('HSET', key, 'mode', 'read', owner, 1)
  redis.call('HDEL', key, writer)
  redis.call('SET', KEYS[4], 1, 'PX', redis.call('PTTL', key))
  redis.call(ARGV[6], KEYS[5], '1')
elseif mode == 'write' then
  return {0, redis.call('PTTL', key)}
elseif found[2] and redis.call('EXISTS', KEYS[4]) == 1 then
  extend(KEYS[4], ttl)
  raise(ttl)
else
  redis.call('HSET', key, 'mode', 'read', owner, 1)
  redis.call('SET', KEYS[4], 1, 'PX', ttl)
  raise(ttl)
end
keep_metadata(KEYS[3], ARGV[3])
return {1, 0}
