-- Acquires an RLock or RFencedLock for one owner. A repeated request of the owner is the same
-- grant: the hold count stays 1 and the token stays the same.
--
-- requires: extend, metadata
--
-- KEYS 1 the lock
--      2 the tombstone of the owner
--      3 the metadata of the owner
--      4 the token; only of an RFencedLock
-- ARGV 1 owner
--      2 TTL in ms
--      3 metadata, or an empty string
--
-- Returns {-1}        refused: the owner has a tombstone
--         {1, token}  granted; the token of an RLock is 0
--         {0, ms}     another owner holds the lock for ms; -1 if the lock does not expire
--
-- Fails with WRONGTYPE, and writes nothing, if the key holds something else.
--
-- Bound: seven commands.

if redis.call('EXISTS', KEYS[2]) == 1 then
  return {-1}
end
local found = redis.call('HMGET', KEYS[1], ARGV[1], 'mode')
if found[2] then
  return redis.error_reply('WRONGTYPE the key holds an RReadWriteLock')
end
local token = 0
if found[1] then
  if KEYS[4] then
    token = redis.call('GET', KEYS[4]) or redis.call('INCR', KEYS[4])
  end
  extend(KEYS[1], ARGV[2])
else
  if redis.call('EXISTS', KEYS[1]) == 1 then
    return {0, redis.call('PTTL', KEYS[1])}
  end
  if KEYS[4] then
    token = redis.call('INCR', KEYS[4])
  end
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
keep_metadata(KEYS[3], ARGV[3])
return {1, tonumber(token)}
