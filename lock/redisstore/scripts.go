// The Lua scripts, and their calls.

package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// luaFiles holds the files of the scripts. The header of each file states what the script does, its
// keys, arguments and reply, the files that it requires, and a bound of its work.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript    = newScript("acquire")
	renewScript      = newRenewScript()
	releaseScript    = newScript("release")
	releaseAllScript = newScript("release_all")
	forceScript      = newScript("force")
	inspectScript    = newScript("inspect")
	listScript       = newScript("list")
	metadataScript   = newScript("set_metadata")
	saveScript       = newScript("save")
	forgetScript     = newScript("forget")
	proveScript      = newScript("prove")

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
	source := rediskit.Source(luaFiles, name)
	if strings.Contains(source, "TOKEN_TTL") { // a constant of a script costs the server less than an argument
		source = fmt.Sprintf("local TOKEN_TTL = '%d'\n", tokenTTL.Milliseconds()) + source
	}
	sc := redisnode.NewScript(source)
	if literal := literally.Replace(source); literal != source {
		sc.Literal = redisnode.NewScript(literal)
	}
	return sc
}

// literally makes a script that has the same effect for one lock on a server that refuses expressions for keys. Such a
// server also refuses unpack and PUBLISH in scripts, so the script leaves all messages to the client.
var literally = strings.NewReplacer(
	"redis.pcall('PUBLISH', channel, message)", "{}",
	"local redis = redis", "",
	"local spread = unpack", spread,
	"KEYS[k]", "KEYS[1]", "KEYS[k + 1]", "KEYS[2]", "KEYS[k + 2]", "KEYS[3]", // of shared_renew.lua
)

// spread does the work of unpack. Eight items at a time make it nearly as fast.
const spread = `
local function spread(list, from, to)
  from, to = from or 1, to or #list
  if to - from >= 8 then
    return list[from], list[from + 1], list[from + 2], list[from + 3], list[from + 4], list[from + 5], list[from + 6],
      list[from + 7], spread(list, from + 8, to)
  elseif from < to then
    return list[from], spread(list, from + 1, to)
  end
  return list[from]
end`

// newRenewScript returns the script that renews leases of exclusive locks.
func newRenewScript() *redisnode.Script {
	sc := newScript("renew")
	sc.Literal = newScript("single_renew")
	return sc
}

// result returns the result in a reply of a script for a key. It publishes the messages for waiters that the server
// has not taken from the script: some hosted servers refuse PUBLISH there, or route it by the slot of the channel. If
// that fails, waiters poll.
func (s *Store) result(ctx context.Context, key string, reply any) any {
	items, ok := reply.([]any)
	if !ok || len(items) != 3 || items[0] != any("unsent") {
		return reply
	}
	messages, ok := items[2].([]any)
	if !ok || s.mute.Load() {
		return items[1]
	}
	var commands []*redisconn.Command
	for ; len(messages) >= 2; messages = messages[2:] {
		commands = append(commands, redisconn.NewCommand("publish", messages[0], messages[1]))
	}
	node, err := s.redis.Master(ctx, redisconn.SlotOf(key))
	if err == nil && len(commands) > 0 && s.redis.Do(ctx, node, commands...) == nil && commands[0].Err != nil && redisconn.Refusal(commands[0].Err.Error()) != "" {
		s.mute.Store(true)
	}
	return items[1]
}

// prove publishes a message as scripts do. The error matches errors.ErrUnsupported if the server refuses that.
func (s *Store) prove(ctx context.Context, channel, message string) error {
	return s.proveAt(ctx, s.prefix+"{"+channel+"}", channel, message)
}

// proveAt is prove with a script for a key, at the node that serves that.
func (s *Store) proveAt(ctx context.Context, key, channel, message string) error {
	reply, err := s.redis.Run(ctx, proveScript, "", []any{nil, nil, 1, &key, &channel, &message})
	if err != nil {
		return err
	}
	if s.result(ctx, key, reply.Value); s.mute.Load() {
		return errMute
	}
	return nil
}

var errMute = fmt.Errorf("the server refuses PUBLISH: %w", errors.ErrUnsupported)

// exclusiveCall holds the arguments of a script for an exclusive lock. It is one allocation,
// because go-redis dereferences pointers among the arguments, and an any that holds a
// pointer needs none. The arguments point into the call, so it serves one call after another.
type exclusiveCall struct {
	keys    keys
	owner   string
	numbers [2]int64
	args    [13]any
}

// exclusiveCalls keeps calls that were answered.
var exclusiveCalls = sync.Pool{New: func() any {
	c := new(exclusiveCall)
	k := &c.keys
	copy(c.args[3:], []any{&k.lock, &k.token, &k.queue, &k.places})
	return c
}}

// The numbers of keys that a call may have: up to the places, the tombstone, the state or the metadata.
const (
	fewestKeys   = 4
	plainKeys    = 5
	statefulKeys = 6
	allKeys      = 7
)

// newExclusiveCall returns a call for a request, and its arguments: some of its keys, the owner, and durations
// in milliseconds.
func (s *Store) newExclusiveCall(r *driver.Request, count int, durations ...time.Duration) (*exclusiveCall, []any) {
	c := exclusiveCalls.Get().(*exclusiveCall)
	c.owner = wireOwner(r)
	k := &c.keys
	s.setKeys(k, r.Key, r.Owner)
	c.args[7] = &k.tombstone // unless the owner takes its place
	if count > plainKeys {
		k.state, k.metadata = k.lock+stateEnd, k.lock+metadataEnd
		c.args[8], c.args[9] = &k.state, &k.metadata
	}
	c.args[2], c.args[3+count] = count, &c.owner
	for i, d := range durations {
		c.numbers[i] = d.Milliseconds()
		c.args[4+count+i] = &c.numbers[i]
	}
	return c, c.args[:4+count+len(durations)]
}

// free lets another request use the call. The caller has got a reply; see [redisconn.Client.Run].
// After an error, go-redis may still be writing the arguments.
func (c *exclusiveCall) free() {
	c.keys, c.owner = keys{}, ""
	exclusiveCalls.Put(c)
}
