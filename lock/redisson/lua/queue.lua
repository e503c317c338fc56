-- The queue of an RFairLock: a list of owners, and a sorted set with the instants at which their
-- places end, in ms since 1970.
--
-- Redisson takes these instants from the clocks of its clients. This file uses the clock of the
-- server, so that all Go clients agree. Redisson's own clients must not differ much from it.
--
-- Bound: three commands for each place that has ended.

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- live_head returns the first owner whose place has not ended. It removes those before it.
local function live_head(queue, places, now)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    local ends = head and redis.call('ZSCORE', places, head)
    if not ends or tonumber(ends) > now then
      return head
    end
    redis.call('ZREM', places, head)
    redis.call('LPOP', queue)
  end
end

-- set_place sets the end of the place of an owner. Each place behind it ends at least one wait after
-- the one before, because each grant takes one wait from all of them.
local function set_place(queue, places, owner, ends, wait)
  redis.call('ZADD', places, string.format('%.0f', ends), owner)
  local behind = false
  for _, other in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    local place = behind and redis.call('ZSCORE', places, other)
    if place then
      ends = ends + wait
      if tonumber(place) >= ends then
        return
      end
      redis.call('ZADD', places, string.format('%.0f', ends), other)
    end
    behind = behind or other == owner
  end
end

-- advance moves the ends of places back by one wait, because an owner before them has left.
local function advance(places, owners, first, wait)
  for i = first, #owners do
    if redis.call('ZSCORE', places, owners[i]) then
      redis.call('ZINCRBY', places, -wait, owners[i])
    end
  end
end

