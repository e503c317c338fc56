-- Does the work of renew.lua for one lock. A server may refuse a script that names its keys otherwise than
-- as KEYS and a number, or that has keys of several slots. It then gets this one.
--
-- KEYS 1 the lock
-- ARGV 1 TTL in ms
--      2 the owner
--
-- Returns {}, or {1} if the lock is not held, or {-1} if another owner has it.
--
-- Bound: four commands.

local values = redis.call('MGET', KEYS[1]) -- a value of another type is no error
local value = values[1]
if value == ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  if left >= tonumber(ARGV[1]) or redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then
    return {}
  end
  value = false
end
local probe = redis.pcall('ZREM', KEYS[1], ARGV[2])
if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
  return probe -- as in renew.lua
end
return {value and -1 or 1}
