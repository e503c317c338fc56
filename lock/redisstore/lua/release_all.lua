-- Deletes many locks that have no waiters. The client releases the other locks with release.lua.
--
-- KEYS 1 to n the locks, n + 1 to 2n their queues in the same order, then the metadata of each lock
--      whose owner has a brace
-- ARGV 1 to n the exact values "owner token"
--
-- Returns the indexes, from 1, of the locks that it did not delete: another value holds
-- them, or they have a queue.
--
-- Bound: three commands, and one more for each lock if any has a queue. The client sends
-- at most 25 locks.

local call, keys, args = redis.call, KEYS, ARGV -- local variables are faster
local n = #args
local values = call('MGET', unpack(keys, 1, n))
local queues = call('EXISTS', unpack(keys, n + 1, 2 * n))
local deleted, kept, metadata = {}, {}, 2 * n
for i = 1, n do
  local has_metadata = string.find(args[i], '{', 1, true)
  if has_metadata then
    metadata = metadata + 1
  end
  if values[i] == args[i] and (queues == 0 or call('EXISTS', keys[n + i]) == 0) then
    deleted[#deleted + 1] = keys[i]
    if has_metadata then
      deleted[#deleted + 1] = keys[metadata] -- as in release.lua
    end
  else
    kept[#kept + 1] = i
  end
end
if #deleted > 0 then
  call('DEL', unpack(deleted))
end
return kept
