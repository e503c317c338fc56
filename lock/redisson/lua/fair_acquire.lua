-- Acquires an RFairLock, or takes or keeps a place in its queue.
--
-- requires: extend, metadata, queue
--
-- KEYS 1 the lock
--      2 the tombstone of the owner
--      3 the metadata of the owner
--      4 the queue
--      5 the ends of the places
-- ARGV 1 owner
--      2 TTL in ms
--      3 metadata, or an empty string
--      4 1 to wait in the queue, otherwise 0
--      5 how long a place lasts beyond the one before it, in ms
--
-- Returns {-1}    refused: the owner has a tombstone
--         {1, 0}  granted
--         {0, ms} another owner holds the lock for ms, or is the first waiter and has a place for ms
--
-- Fails with WRONGTYPE, and writes nothing, if the key holds something else.
--
-- Bound: it removes the places that have ended. A grant changes all places, and a waiter that moves the
-- end of its place those behind it.

local key, owner, queue, places = KEYS[1], ARGV[1], KEYS[4], KEYS[5]
local wait = tonumber(ARGV[5])
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {-1}
end
local found = redis.call('HMGET', key, owner, 'mode')
if found[2] then
  return redis.error_reply('WRONGTYPE the key holds an RReadWriteLock')
end
if found[1] then
  extend(key, ARGV[2])
  keep_metadata(KEYS[3], ARGV[3])
  return {1, 0}
end
local free, now = redis.call('EXISTS', key) == 0, now_ms()
local head = live_head(queue, places, now)
if free and (not head or head == owner) then
  if head then
    redis.call('LPOP', queue)
    redis.call('ZREM', places, owner)
    advance(places, redis.call('ZRANGE', places, 0, -1), 1, wait)
  end
  redis.call('HSET', key, owner, 1)
  redis.call('PEXPIRE', key, ARGV[2])
  keep_metadata(KEYS[3], ARGV[3])
  return {1, 0}
end

local left = redis.call('PTTL', key)
if ARGV[4] == '1' then
  local ends, least = redis.call('ZSCORE', places, owner), now + math.max(left, 0) + wait
  if not ends then
    local last = redis.call('LINDEX', queue, -1)
    local before = last and redis.call('ZSCORE', places, last)
    if before then
      least = tonumber(before) + wait
    end
    redis.call('RPUSH', queue, owner)
  end
  if not ends or tonumber(ends) < least then
    set_place(queue, places, owner, least, wait)
  end
  keep_metadata(KEYS[3], ARGV[3])
end
if free then
  left = math.max(tonumber(redis.call('ZSCORE', places, head) or now) - now, 1)
end
return {0, left}
