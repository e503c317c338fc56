package redislock

import "github.com/redis/go-redis/v9"

// The key of a lock is a string: the token and then the metadata. All scripts but obtain compare
// the whole value.
var (
	// obtain sets the key if it does not exist, or if its value begins with the token. It returns
	// nil for the lock of another holder. ARGV: value, length of the token, TTL in milliseconds.
	obtain = redis.NewScript(`if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return 1 end
local len = tonumber(ARGV[2])
if redis.call('GETRANGE', KEYS[1], 0, len - 1) ~= ARGV[1]:sub(1, len) then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1`)

	// refresh sets the TTL. It returns 0 for the lock of another holder. ARGV: value, TTL in
	// milliseconds.
	refresh = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

	// release deletes the key. It returns 0 for the lock of another holder. ARGV: value.
	release = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

	// remaining returns the TTL in milliseconds, or less than 0 for the lock of another holder.
	// ARGV: value.
	remaining = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -3 end
return redis.call('PTTL', KEYS[1])`)
)
