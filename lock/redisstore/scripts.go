package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed" // of the scripts
	"encoding/hex"
	"errors"
	"os"
	"time"
)

var (
	//go:embed lua/tokens.lua
	tokensLua string
	//go:embed lua/queue.lua
	queueLua string
	//go:embed lua/acquire_free.lua
	acquireFreeLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/release_free.lua
	releaseFreeLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/force.lua
	forceLua string
	//go:embed lua/inspect.lua
	inspectLua string

	//go:embed lua/shared_prelude.lua
	sharedPrelude string
	//go:embed lua/shared_acquire.lua
	sharedAcquireLua string
	//go:embed lua/shared_renew.lua
	sharedRenewLua string
	//go:embed lua/shared_release.lua
	sharedReleaseLua string
	//go:embed lua/shared_force.lua
	sharedForceLua string
	//go:embed lua/shared_inspect.lua
	sharedInspectLua string
)

var (
	acquireScript = newScript(tokensLua + acquireFreeLua + queueLua + acquireLua)
	renewScript   = newScript(renewLua)
	releaseScript = newScript(releaseFreeLua + tokensLua + queueLua + releaseLua)
	forceScript   = newScript(tokensLua + queueLua + forceLua)
	inspectScript = newScript(inspectLua)

	sharedAcquireScript = newScript(tokensLua + queueLua + sharedPrelude + sharedAcquireLua)
	sharedRenewScript   = newScript(sharedRenewLua)
	sharedReleaseScript = newScript(tokensLua + queueLua + sharedPrelude + sharedReleaseLua)
	sharedForceScript   = newScript(tokensLua + queueLua + sharedPrelude + sharedForceLua)
	sharedInspectScript = newScript(sharedInspectLua)
)

// script is sent by its digest, and in full when the server answers NOSCRIPT: it
// has been restarted, or flushed. That answer says that nothing was executed, so
// nothing is executed twice.
type script struct {
	digest, source string
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	return &script{digest: hex.EncodeToString(sum[:]), source: source}
}

// byDigest and inFull write the beginning of a command into the two elements that
// stand before the number of keys. Pointers, here and in the arguments, are read
// by go-redis like what they point at, and need no copy to be put into an any.
func (s *script) byDigest(args []any) { args[0], args[1] = "evalsha", &s.digest }
func (s *script) inFull(args []any)   { args[0], args[1] = "eval", &s.source }

// run runs a script where its keys lie, within the bound of the store. The first two
// elements of args are left open for it, then come the number of keys and the keys.
// It returns soon after ctx or the store has ended, and what was sent may still be
// executed then. Errors do not show the owner.
func (s *Store) run(ctx context.Context, sc *script, owner string, args ...any) (any, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	until := time.Now().Add(s.timeout)
	reply, err := s.send(ctx, sc, until, args)
	if err != nil {
		return nil, s.reason(ctx, s.bound(until, s.clean(err, owner)))
	}
	return reply, nil
}

func (s *Store) send(ctx context.Context, sc *script, until time.Time, args []any) (any, error) {
	if s.cluster == nil {
		return s.one.run(ctx, s, sc, until, false, args)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, until, noAnswerError(s.timeout))
	defer cancel()
	slot := slotOf(*args[3].(*string))
	return s.cluster.run(ctx, slot, func(n *node, asking bool) (any, error) { return n.run(ctx, s, sc, until, asking, args) })
}

// bound returns the error of a call that was to end by an instant.
func (s *Store) bound(until time.Time, err error) error {
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	if late && !time.Now().Before(until) {
		return noAnswerError(s.timeout)
	}
	return err
}
