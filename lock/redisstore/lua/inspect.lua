-- Reads a lock, and writes nothing.
--
-- requires: arrival
--
-- KEYS 1 the lock
--      2 its last token
--      3 its queue
--      4 the places
--      5 its metadata; see set_metadata.lua
-- ARGV none
--
-- Returns {value of the lock, its PTTL in ms, length of the queue, the first 100 owners in
-- the queue, the last token, the metadata, the ms for which each of these owners has waited}. A missing
-- value is nil; the ms are 0 if they are not known.
--
-- Bound: six commands, and one for each of 100 owners.

local value = redis.call('GET', KEYS[1])
local owners = redis.call('LRANGE', KEYS[3], 0, 99)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local times = {}
for i, owner in ipairs(owners) do
  times[i] = waited(owner, now)
end
return {
  value,
  redis.call('PTTL', KEYS[1]),
  redis.call('LLEN', KEYS[3]),
  owners,
  redis.call('GET', KEYS[2]),
  redis.call('GET', KEYS[5]),
  times,
}
