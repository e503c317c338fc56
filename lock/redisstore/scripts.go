// The Lua scripts, and their calls.

package redisstore

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/luascript"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// luaFiles holds the files of the scripts. The header of each file says what the script does, its
// keys, arguments and reply, the files that it requires, and a bound of its work.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript    = newScript("acquire")
	renewScript      = newScript("renew")
	releaseScript    = newScript("release")
	releaseAllScript = newScript("release_all")
	forceScript      = newScript("force")
	inspectScript    = newScript("inspect")
	listScript       = newScript("list")
	metadataScript   = newScript("set_metadata")
	saveScript       = newScript("save")
	forgetScript     = newScript("forget")

	sharedAcquireScript = newScript("shared_acquire")
	sharedRenewScript   = newScript("shared_renew")
	sharedKeyScript     = newScript("shared_renew_key")
	sharedReleaseScript = newScript("shared_release")
	sharedForceScript   = newScript("shared_force")
	sharedInspectScript = newScript("shared_inspect")
)

// newScript returns the script of a file and the files that it requires. It panics if a file
// that is required does not exist.
func newScript(name string) *redisnode.Script {
	source, err := luascript.Assemble(name, readLua)
	if err != nil {
		panic(fmt.Sprint("redisstore: ", err))
	}
	return redisnode.NewScript(source)
}

func readLua(name string) (string, error) {
	text, err := fs.ReadFile(luaFiles, "lua/"+name+".lua")
	return string(text), err
}

// exclusiveCall holds the arguments of a script for an exclusive lock. It is one allocation,
// because go-redis dereferences pointers among the arguments, and an any that holds a
// pointer needs none. The arguments point into the call, so it serves one call after another.
type exclusiveCall struct {
	keys    keys
	owner   string
	numbers [3]int64
	args    [12]any
}

// exclusiveCalls keeps calls that were answered.
var exclusiveCalls = sync.Pool{New: func() any {
	c := new(exclusiveCall)
	k := &c.keys
	copy(c.args[2:], []any{5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone, &c.owner})
	return c
}}

// newExclusiveCall returns a call for a request. Its args are complete up to the owner:
// args[9] is the first that is left.
func (s *Store) newExclusiveCall(r *driver.Request) *exclusiveCall {
	c := exclusiveCalls.Get().(*exclusiveCall)
	c.owner = wireOwner(r)
	s.setKeys(&c.keys, r.Key, r.Owner)
	return c
}

// setNumbers sets the arguments after the owner to durations, in milliseconds. It returns all
// arguments.
func (c *exclusiveCall) setNumbers(durations ...time.Duration) []any {
	const first = 9
	for i, d := range durations {
		c.numbers[i] = d.Milliseconds()
		c.args[first+i] = &c.numbers[i]
	}
	return c.args[:first+len(durations)]
}

// free lets another request use the call. The caller has got a reply; see [redisconn.Client.Run].
// After an error, go-redis may still be writing the arguments.
func (c *exclusiveCall) free() {
	c.keys, c.owner = keys{}, ""
	exclusiveCalls.Put(c)
}
