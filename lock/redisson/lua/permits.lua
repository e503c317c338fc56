-- The permits of an RPermitExpirableSemaphore: a string with the number of free permits, and a
-- sorted set of the ids of the others with the instants at which their leases end, in ms since 1970.
--
-- Redisson takes these instants from the clocks of its clients. This file uses the clock of the
-- server, so that all Go clients agree.
--
-- requires: queue
--
-- Bound: four commands, and one for each lease that has ended.

local NEVER = '922337203685477' -- as Redisson marks a permit without a lease

-- reclaim returns the permits whose leases have ended.
local function reclaim(key, held, channel, publish, now)
  local ended = redis.call('ZRANGEBYSCORE', held, 0, string.format('%.0f', now), 'LIMIT', 0, 1000)
  if #ended > 0 then
    redis.call('ZREM', held, unpack(ended))
    local free = redis.call('INCRBY', key, #ended)
    if free > 0 then
      redis.call(publish, channel, string.format('%.0f', free))
    end
  end
end

local function free_permits(key)
  return tonumber(redis.call('GET', key) or 0)
end

-- end_of returns the score of a lease of that many ms, 0 = it does not end.
local function end_of(lease, now)
  if lease == '0' then
    return NEVER
  end
  return string.format('%.0f', now + tonumber(lease))
end

