-- Ends what an owner has of a shared lock, be it a lease or a place in the queue,
-- and grants what fits then.
--
-- KEYS 1 to 6 as in the shared prelude, 7 the tombstone of the owner
-- ARGV 1 owner
--      2 ms for which the owner is refused from now on, 0 = not at all: for an
--        owner with a request that may still be executed
--      3 ms for which the last token is remembered
--
-- Returns 1 it had a lease, 2 it had a place in the queue, 0 it had nothing.

local owner = ARGV[1]
local done = 0

local till = ends(KEYS[1], owner)
if call('ZCARD', KEYS[3]) > 0 then
  clock(ARGV[3])
else
  local time = call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
call('ZCARD', KEYS[4]) -- these refuse a wrong type
call('HLEN', KEYS[5])
call('HLEN', KEYS[6])

if till > now then
  drop(owner)
  done = 1
elseif leave(owner) then
  done = 2
end
if done > 0 then
  serve()
  tidy()
end

-- Last, because a server that is out of memory refuses no write after another.
if tonumber(ARGV[2]) > 0 then
  call('SET', KEYS[7], '1', 'PX', ARGV[2])
end
return done
