-- Shows the holders and the waiters of a lock of any kind.
--
-- requires: readers
--
-- KEYS 1 the lock
--      2 the token
--      3 the queue
-- ARGV 1 the prefix of the keys of the readers' leases
--      2 the prefix of the keys of metadata
--
-- Returns {ms, holders, token, waiting, places, mode}:
--   ms       the TTL of the lock
--   holders  for each live holder its field, its TTL and its metadata; holders beyond the first 16
--            have the TTL 0 and no metadata
--   token    the token, or an empty string
--   waiting  the length of the queue
--   places   for each of the first 100 waiters its owner and its metadata
--   mode     the mode of an RReadWriteLock, otherwise an empty string
--
-- Bound: five commands, two for each holder, one for each hold of a reader, and one for each waiter
-- that is shown.

local key, left = KEYS[1], redis.call('PTTL', KEYS[1])
local fields, mode = redis.call('HGETALL', key), redis.call('HGET', key, 'mode')
local holders, count = {}, 0

local function metadata_of(owner)
  return redis.call('GET', ARGV[2] .. owner) or ''
end

for i = 1, #fields, 2 do
  local owner, ms = fields[i], left
  local writer = mode and string.sub(owner, -6) == ':write'
  if mode and not writer then
    ms = owner == 'mode' and 0 or reader_left(ARGV[1], owner, fields[i + 1])
  end
  if ms ~= 0 then
    count = count + 1
    local metadata = ''
    if count <= 16 then
      metadata = metadata_of(writer and string.sub(owner, 1, -7) or owner)
    else
      ms = 0
    end
    for _, item in ipairs({owner, ms, metadata}) do
      holders[#holders + 1] = item
    end
  end
end
local places = {}
for _, owner in ipairs(redis.call('LRANGE', KEYS[3], 0, 99)) do
  places[#places + 1] = owner
  places[#places + 1] = metadata_of(owner)
end
return {left, holders, redis.call('GET', KEYS[2]) or '', redis.call('LLEN', KEYS[3]), places, mode or ''}
