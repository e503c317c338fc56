-- Takes a shared lock from the holders whose tokens are not above a given one. The token
-- protects later holders from a request that arrives late or twice.
--
-- requires: shared_prelude
--
-- KEYS 1 to 6 as in shared_prelude.lua
-- ARGV 1 token
--      2 ms for which the server keeps the last token
--      3 the cursor: "0" in the first call, then the cursor that the previous call returned
--
-- Returns {number of leases taken away, cursor of the next call}. The cursor is empty if the
-- script has seen all holders.
--
-- Bound: about 400 holders, with MAX_MEMBERS members in all besides those of the last one,
-- and one walk.

local max_token = tonumber(ARGV[1])
init(ARGV[2])
redis.call('ZCARD', KEYS[4]) -- these fail on a wrong type
redis.call('HLEN', KEYS[5])
redis.call('HLEN', KEYS[6])

local count, removed_members, owners = 0, 0, {}
local found = redis.call('ZSCAN', KEYS[1], ARGV[3], 'COUNT', 400)
local cursor = found[1] == '0' and '' or found[1]
for i = 1, #found[2], 2 do
  local owner = found[2][i]
  local record = tonumber(found[2][i + 1]) > now and read_record(owner)
  if record and tonumber(record.token) <= max_token then
    if removed_members > MAX_MEMBERS then
      cursor = ARGV[3] -- the next call does not find the dropped holders again
      break
    end
    removed_members = removed_members + (record.mode == 'm' and record.limit or 0)
    owners[#owners + 1] = owner
    if not is_kept(to_ms(found[2][i + 1])) then
      signal(owner, '0') -- as in force.lua
    end
    count = count + 1
  end
end
for from = 1, count, CHUNK / 2 do
  remove_leases({spread(owners, from, math.min(from + CHUNK / 2 - 1, count))})
end
if count > 0 then
  grant_waiters()
  delete_if_unused()
end
return reply({count, cursor})
