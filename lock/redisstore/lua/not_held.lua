-- The answer of a script that does not find the lock of its caller.
--
-- Bound: one command.

-- not_held returns 0, or the error of a replica, which may be behind or still empty. A write fails on a
-- replica, so it tries one. This write never changes anything, whatever the key holds.
local function not_held()
  local probe = redis.pcall('ZREM', KEYS[1], '')
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
  return 0
end

