-- The leases of the readers of an RReadWriteLock. The hash of the lock has one field for each
-- owner, with its hold count. Each hold of a reader has a key of its own, whose TTL is its lease:
-- "{name}:owner:rwlock_timeout:n", n = 1 to the count.
--
-- Bound: one command, and one for each hold of a reader.

-- reader_left returns the rest of the lease of one reader in ms, 0 if it has ended.
local function reader_left(prefix, owner, count)
  local most = 0
  for n = 1, tonumber(count) or 0 do
    most = math.max(most, redis.call('PTTL', prefix .. owner .. ':rwlock_timeout:' .. n))
  end
  return most
end

-- readers_left returns the rest of the longest lease of all readers in ms.
local function readers_left(key, prefix)
  local most, fields = 0, redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and string.sub(fields[i], -6) ~= ':write' then
      most = math.max(most, reader_left(prefix, fields[i], fields[i + 1]))
    end
  end
  return most
end

