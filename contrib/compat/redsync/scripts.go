// The scripts.

package redsync

import (
	"crypto/sha1" // names scripts, and secures nothing
	"encoding/hex"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
)

// Answers of the scripts.
const (
	done    int64 = 1
	missing int64 = -1 // there is no key
)

// releaseScript deletes the key if it has the value.
var releaseScript = newScript(`local found = redis.call('GET', KEYS[1])
if not found then return -1 end
if found ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

// extendScript sets the expiry of the key if it has the value.
var extendScript = newScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// restoreScript sets the expiry of the key if it has the value, and sets the key again if there
// is none. A server that is out of memory refuses SET and allows PEXPIRE.
var restoreScript = newScript(`local found = redis.call('GET', KEYS[1])
if found == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if found then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// newScript returns a script with one key.
func newScript(text string) *redis.Script {
	sum := sha1.Sum([]byte(text))
	return redis.NewScript(1, text, hex.EncodeToString(sum[:]))
}
