-- Takes a shared lock away from those that hold it by tokens up to one that was
-- seen before. The token keeps a request that arrives late, or twice, from later
-- holders.
--
-- KEYS 1 to 6 as in the shared prelude
-- ARGV 1 token
--      2 ms for which the last token is remembered
--
-- Returns how many it was taken from.

local seen = tonumber(ARGV[1])
clock(ARGV[2])
call('ZCARD', KEYS[4]) -- these refuse a wrong type
call('HLEN', KEYS[5])
call('HLEN', KEYS[6])

local done = 0
for _, owner in ipairs(call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf')) do
  local held = wish_of(owner)
  if held and tonumber(held.token) <= seen then
    drop(owner)
    signal(owner, '0') -- as in force.lua
    done = done + 1
  end
end
if done > 0 then
  serve()
  tidy()
end
return done
