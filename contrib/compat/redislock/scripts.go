// The scripts.

package redislock

import "github.com/redis/go-redis/v9"

// Each key of a lock is a string: the token and then the metadata. A script changes all keys or none.
// All scripts but obtain compare the whole value. They read it with MGET, which finds nothing in a key
// of another type, where GET is an error.
var (
	// obtain sets the keys if none exists, or if the values of all begin with the token. It returns
	// nil otherwise. ARGV: value, length of the token, TTL in milliseconds.
	obtain = redis.NewScript(`local len = tonumber(ARGV[2])
local found = 0
for _, key in ipairs(KEYS) do found = found + redis.call('EXISTS', key) end
if found > 0 then
  for _, key in ipairs(KEYS) do
    if redis.call('GETRANGE', key, 0, len - 1) ~= ARGV[1]:sub(1, len) then return false end
  end
end
for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'PX', ARGV[3]) end
return 1`)

	// refresh sets the TTL. It returns 0 if another holder has a key. ARGV: value, TTL in
	// milliseconds.
	refresh = redis.NewScript(unlessForeign + `for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return 1`)

	// release deletes the keys. It returns 0 if another holder has a key. ARGV: value.
	release = redis.NewScript(unlessForeign + `for _, key in ipairs(KEYS) do redis.call('DEL', key) end
return 1`)

	// remaining returns the shortest TTL in milliseconds, and 0 if another holder has a key. Keys
	// without an expiry do not count. ARGV: value.
	remaining = redis.NewScript(unlessForeign + `local shortest = 0
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left > 0 and (shortest == 0 or left < shortest) then shortest = left end
end
return shortest`)
)

// unlessForeign is the part of a script that returns 0 if a key has another value.
const unlessForeign = `for _, key in ipairs(KEYS) do
  if redis.call('MGET', key)[1] ~= ARGV[1] then return 0 end
end
`
