-- Reads names of keys, and writes nothing.
--
-- KEYS none
-- ARGV 1 the cursor of SCAN
--      2 the pattern of the names
--      3 about how many keys SCAN looks at
--      4 "1" to ask for the server process, otherwise ""
--
-- Returns {the next cursor, "0" after the last call, the names that match, the run_id of the
-- server process, "" if it is not known or not asked for}.
--
-- Bound: one SCAN. It may look at ten times as many places of a table with few keys.

local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local process = ''
if ARGV[4] == '1' then
  local info = redis.pcall('INFO', 'server')
  if type(info) == 'string' then
    process = string.match(info, 'run_id:(%w+)') or ''
  end
end
return {page[1], page[2], process}
