// The Lua scripts, and the keys of a lock.

package redlock

import (
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// luaFiles holds the files of the scripts. The header of each file states what the script does, its
// keys, arguments and reply, and a bound of its work.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript = newScript("acquire")
	renewScript   = newRenewScript()
	releaseScript = newScript("release")
	inspectScript = newScript("inspect")
)

func newScript(name string) *redisnode.Script {
	return redisnode.NewScript(rediskit.Source(luaFiles, name))
}

// newRenewScript returns the script that renews leases.
func newRenewScript() *redisnode.Script {
	sc := newScript("renew")
	sc.Literal = newScript("single_renew")
	return sc
}

// keys are the keys of a lock and an owner.
type keys struct{ lock, tombstone string }

// keys checks a request and returns its keys.
func (s *Store) keys(r *driver.Request) (keys, error) {
	switch {
	case r.Mode != driver.Exclusive:
		return keys{}, fmt.Errorf("%v: %w", r.Mode, errors.ErrUnsupported)
	case r.Key == "":
		return keys{}, fmt.Errorf("%w: it is empty", driver.ErrBadKey)
	case r.Owner == "":
		return keys{}, fmt.Errorf("the owner is empty: %w", driver.ErrNotAcquired)
	case r.TTL < time.Millisecond:
		return keys{}, fmt.Errorf("%w: %v is less than a millisecond", driver.ErrBadTTL, r.TTL)
	}
	k := keys{lock: s.prefix + r.Key}
	k.tombstone = tombstoneKey(k.lock, r.Owner)
	return k, nil
}

// tombstoneKey returns a key in the slot of the lock.
func tombstoneKey(lock, owner string) string {
	const kind = ":lw-given-up:"
	open, closed := strings.IndexByte(lock, '{'), strings.IndexByte(lock, '}')
	switch {
	case open >= 0 && strings.IndexByte(lock[open+1:], '}') > 0:
		return lock + kind + owner // it has the hash tag of the lock
	case closed < 0:
		return "{" + lock + "}" + kind + owner
	}
	// The braces of this name are no hash tag, and would be one inside of others.
	return "{" + tagOf(redisconn.SlotOf(lock)) + "}" + kind + lock + ":" + owner
}

// tagOf returns a hash tag for a slot: the smallest number whose slot it is. That takes 16,000
// attempts as a rule, which is half a millisecond.
func tagOf(slot uint16) string {
	for i := 0; ; i++ {
		if tag := strconv.Itoa(i); redisconn.SlotOf(tag) == slot {
			return tag
		}
	}
}
