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

-- advance moves the ends of places back by one wait, because an owner before them has left.
local function advance(places, owners, first, wait)
  for i = first, #owners do
    if redis.call('ZSCORE', places, owners[i]) then
      redis.call('ZINCRBY', places, -wait, owners[i])
    end
  end
end

