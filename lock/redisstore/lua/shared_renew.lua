-- Gives leases of shared locks their full TTL again. It never creates one: a lease
-- that has ended is lost, even if nothing has cleared it away yet, and so is one
-- whose keys hold something else. How many members a lease has does not matter.
--
-- KEYS three for each lease: the holders, the records, the members; for one that has
--      no members the records again
-- ARGV 1 TTL in ms
--      2 ... "owner token", one per lease
--
-- Returns the indexes, from 1, of the leases that are not held.

local call, pcall, match = redis.call, redis.pcall, string.match
local ttl = tonumber(ARGV[1])
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local till = now + ttl + 1 -- now is rounded down
local LATEST = 1e13 -- when a key can be made to end, whatever a score says

-- held answers the mode of the lease, nil if it is not held.
local function held(holders, records, owner, token)
  local ends = pcall('ZSCORE', holders, owner)
  if type(ends) ~= 'string' or tonumber(ends) <= now then
    return nil
  end
  local record = pcall('HGET', records, owner)
  return type(record) == 'string' and match(record, '^(%l) ' .. token .. ' ')
end

local lost = {}
for i = 2, #ARGV do
  local k = 3 * i - 5
  local owner, token = match(ARGV[i], '^(.*) (%d+)$')
  local mode = held(KEYS[k], KEYS[k + 1], owner, token)
  if mode then
    -- In this order, because a server that is out of memory refuses to add anything,
    -- unless another write came before.
    local latest = tonumber(call('ZREVRANGE', KEYS[k], 0, 0, 'WITHSCORES')[2])
    call('PEXPIREAT', KEYS[k], string.format('%.0f', math.min(math.max(latest, till), LATEST)))
    call('ZADD', KEYS[k], string.format('%.0f', till), owner)
    for side = k + 1, mode == 'm' and k + 2 or k + 1 do
      if call('PTTL', KEYS[side]) < 2 * ttl then
        call('PEXPIRE', KEYS[side], string.format('%.0f', 4 * ttl))
      end
    end
  else
    lost[#lost + 1] = i - 1
  end
end

-- A replica must not tell that a lease is lost: it may be behind, or still empty.
-- If nothing was written the attempt to write something finds that out. This one
-- changes nothing anywhere, for no owner is empty.
if #lost > 0 then
  local probe = pcall('ZREM', KEYS[3 * lost[1] - 2], '')
  if type(probe) == 'table' and string.find(probe.err, 'READONLY', 1, true) then
    return probe
  end
end
return lost
