-- Takes the lock, or a place in its queue. One script is the try, the entry into
-- the queue, the poll that keeps a place alive, and what moves a queue on whose
-- lock has expired. To ask again with the same owner is harmless.
--
-- KEYS 1 to 4 as in tokens.lua, 5 the tombstone of the owner
-- ARGV 1 owner
--      2 TTL of the lock in ms
--      3 ms for which a place lasts, 0 = do not wait
--      4 ms for which the last token is remembered
--
-- Returns {-1}                       refused: the owner was released before
--         {1, token}                 the lock is the owner's, for the whole TTL
--         {0, token, ms, head}       another has it, by that token, for so many ms;
--                                    head is 1 if the owner is first in the queue
--
-- Fails with WRONGTYPE, and writes nothing, if a key holds something else.

local owner, ttl, place, memory = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

if redis.call('EXISTS', KEYS[5]) == 1 then
  return {-1}
end

local value = redis.call('GET', KEYS[1])
local holder, mark
if value then
  holder, mark = string.match(value, '^(.*) (%d+)$')
  if not holder then
    return redis.error_reply('WRONGTYPE the value of the key is not a lock')
  end
  if holder == owner then
    redis.call('PEXPIRE', KEYS[1], ttl)
    return {1, mark}
  end
else
  local new, now = token()
  local heir, left
  if queued() then
    heir, left = next_alive(now)
  end
  if not heir or heir == owner then
    return {1, grant(owner, new, now, tonumber(ttl), memory)}
  end
  mark = grant(heir, new, now, left, memory)
  signal(heir, mark)
end

local head = 0
if place > 0 then
  local known = redis.call('ZSCORE', KEYS[4], owner)
  redis.call('LLEN', KEYS[3]) -- refuses a wrong type
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  redis.call('ZADD', KEYS[4], text(now + place), owner)
  if not known then
    local dead = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', text(now), 'LIMIT', 0, 2)
    for _, gone in ipairs(dead) do
      redis.call('ZREM', KEYS[4], gone)
      redis.call('LREM', KEYS[3], 0, gone)
    end
    redis.call('RPUSH', KEYS[3], owner)
  end
  -- Both or none: if the places outlived the queue an owner in them would never
  -- enter it again.
  if math.min(redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[4])) < 2 * place then
    redis.call('PEXPIRE', KEYS[3], text(4 * place))
    redis.call('PEXPIRE', KEYS[4], text(4 * place))
  end
  if redis.call('LINDEX', KEYS[3], 0) == owner then
    head = 1
  end
end
return {0, mark, redis.call('PTTL', KEYS[1]), head}
