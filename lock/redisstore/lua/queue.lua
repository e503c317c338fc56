-- Steps that have to do with the queue, put behind those of tokens.lua.

-- A score can be any number, infinity too, but no key can be made to end then. So
-- nothing ends later than this, in ms: in the year 2286.
local LATEST = 1e13

-- queued tells whether anybody is in the queue. It also refuses a queue or places
-- of a wrong type, before they are written to.
local function queued()
  return redis.call('LLEN', KEYS[3]) > 0 and redis.call('ZCARD', KEYS[4]) >= 0
end

-- next_alive takes the first owner with a place out of the queue, with all that
-- stood before it, and answers it and the ms that are left of its place.
local function next_alive(now)
  while true do
    local owner = redis.call('LPOP', KEYS[3])
    if not owner then
      return nil
    end
    local ends = redis.call('ZSCORE', KEYS[4], owner)
    redis.call('ZREM', KEYS[4], owner)
    if ends and tonumber(ends) > now then
      return owner, math.min(tonumber(ends), LATEST) - now
    end
  end
end

-- signal tells the process of an owner "owner token", on the channel that it
-- listens to: the prefix of the keys and the owner up to its last colon. Nothing
-- depends on it, so the right to publish may be missing.
local function signal(owner, new)
  local prefix = string.sub(KEYS[1], 1, string.find(KEYS[1], '{', 1, true) - 1)
  local client = string.match(owner, '^(.*):') or owner
  redis.pcall('PUBLISH', prefix .. client, owner .. ' ' .. new)
end

-- hand_over passes the lock on to the next in the queue, for what is left of its
-- place, and frees it if there is none.
local function hand_over(memory)
  if not queued() then
    redis.call('DEL', KEYS[1])
    return
  end
  local new, now = token()
  local owner, left = next_alive(now)
  if not owner then
    redis.call('DEL', KEYS[1])
    return
  end
  signal(owner, grant(owner, new, now, left, memory))
end

