-- Does the work of renew.lua for one lock. A server may refuse a script that names its keys otherwise than
-- as KEYS and a number, or that has keys of several slots. It then gets this one.
--
-- requires: not_held
--
-- KEYS 1 the lock, 2 its queue if it yields
-- ARGV 1 TTL in ms
--      2 the exact value "owner token"
--
-- Returns {}, or {1} if the lock is not held, or {-1} if another owner has it, or {2} if it is held and has a
-- queue.
--
-- Bound: five commands.

local values = redis.call('MGET', KEYS[1]) -- a value of another type is no error
local value = values[1]
if value == ARGV[2] then
  local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])
  if left >= ttl or left < 0 and ttl == 1 or redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then
    if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then
      return {2}
    end
    return {}
  end
  value = false
end
local missing = not_held()
if missing ~= 0 then
  return missing -- the error of a replica
end
if value and string.sub(value, 1, 6) ~= '{kept}' then
  return {-1}
end
return {1}
