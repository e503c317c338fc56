package redisstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/leasewheel/leasewheel/internal/luascript"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
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
	inspectScript    = eager(newScript("inspect"))
	listScript       = newScript("list")
	metadataScript   = eager(newScript("set_metadata"))

	sharedAcquireScript = newScript("shared_acquire")
	sharedRenewScript   = newScript("shared_renew")
	sharedKeyScript     = newScript("shared_renew_key")
	sharedReleaseScript = newScript("shared_release")
	sharedForceScript   = newScript("shared_force")
	sharedInspectScript = eager(newScript("shared_inspect"))
)

// newScript returns the script of a file and the files that it requires. It panics if a file
// that is required does not exist.
func newScript(name string) *redisconn.Script {
	source, err := luascript.Assemble(name, readLua)
	if err != nil {
		panic(fmt.Sprint("redisstore: ", err))
	}
	return redisconn.NewScript(source)
}

func readLua(name string) (string, error) {
	text, err := fs.ReadFile(luaFiles, "lua/"+name+".lua")
	return string(text), err
}

// eager marks a script that names fewer keys than the other scripts of the lock do.
func eager(script *redisconn.Script) *redisconn.Script {
	script.Eager = true
	return script
}

// begin registers a call. It returns an error if the store cannot serve it. Otherwise the
// caller must call s.redis.End when it is done.
func (s *Store) begin(ctx context.Context) error {
	switch {
	case ctx == nil:
		return rediskit.ErrNilContext
	case s.redis == nil:
		return rediskit.ErrZeroStore
	}
	return rediskit.FromConn(s.redis.Begin(ctx))
}

// runAll runs scripts on one node; see [redisconn.Client.RunAll].
func (s *Store) runAll(ctx context.Context, n *redisconn.Node, calls []*redisconn.Call) (until time.Time, err error) {
	if ctx == nil {
		return time.Time{}, rediskit.ErrNilContext
	}
	until, err = s.redis.RunAll(ctx, n, calls)
	return until, rediskit.FromConn(err)
}

// run runs a script on the node of its keys, within Options.Timeout. The first two elements
// of args are free, because the client sets them. The number of keys and the keys follow.
// run returns soon after ctx has ended or the store is closed. The server may still
// execute the script then. Errors do not show the owner.
func (s *Store) run(ctx context.Context, sc *redisconn.Script, owner string, args ...any) (any, error) {
	reply, err := s.runTimed(ctx, sc, owner, args)
	return reply.Value, err
}

// runTimed is run for callers that need the time at which the script was sent.
func (s *Store) runTimed(ctx context.Context, sc *redisconn.Script, owner string, args []any) (redisconn.Reply, error) {
	switch {
	case ctx == nil:
		return redisconn.Reply{}, rediskit.ErrNilContext
	case s.redis == nil:
		return redisconn.Reply{}, rediskit.ErrZeroStore
	}
	reply, err := s.redis.Run(ctx, sc, owner, args)
	return reply, rediskit.FromConn(err)
}
