-- Functions for renewals.
--
-- Bound: two commands for each call.

-- extend gives a key its full TTL again. A key that has more left, or no TTL, keeps it.
local function extend(key, ttl)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end

-- refuse_on_replica returns an error if the script runs on a replica, which may be behind its
-- master and must not report that a lease is lost. The key keeps its value: it holds no sorted set
-- with this member.
local function refuse_on_replica(key)
  local probe = redis.pcall('ZREM', key, '')
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end

