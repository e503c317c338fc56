-- Stores the state that a holder leaves to the next one. It is a key of its own, which no release
-- deletes, so only acquire.lua with KEYS 6 knows about it.
--
-- requires: not_held
--
-- KEYS 1 the lock, 2 the state  string "token number data"
-- ARGV 1 the exact value of the lock, "owner token"
--      2 token
--      3 number of the save among those of the lease, at most 15 digits
--      4 data
--      5 ms until the state expires
--
-- Returns 1, or 0 if the lock has another value. It writes nothing if a save of the same lease with the
-- same or a higher number was executed before.
--
-- Fails with WRONGTYPE, and writes nothing, if a key holds something else.
--
-- Bound: three commands. A replica answers with the error of a write.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return not_held()
end
local old = redis.call('GET', KEYS[2])
local token, number = string.match(old or '', '^(%d+) (%d+) ')
if old and not token then
  return redis.error_reply('WRONGTYPE the value of the key is not a state')
end
if token ~= ARGV[2] or tonumber(number) < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4], 'PX', ARGV[5])
end
return 1
