// The state that a holder leaves to the next one, and the metadata that it changes.

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Save implements [driver.Store], in mode Exclusive. The state is in the memory of the server, and like a
// lock it may be lost in a fail-over to a replica that does not have it yet; see Options.Replicas, which
// does not confirm it.
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	text := string(data) // a copy, because go-redis may still write it after the call
	return failed("save", s.keep(ctx, &l, "a state", stateEnd, saveScript, number, &text, ttl.Milliseconds()))
}

// keep runs a script that writes a key beside an exclusive lock for its holder.
func (s *Store) keep(ctx context.Context, l *driver.Lease, what, end string, sc *redisnode.Script, args ...any) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("%s in mode %v: %w", what, l.Mode, errors.ErrUnsupported)
	}
	st, err := s.stateOf(l)
	if err != nil {
		return err
	}
	key, token := st.key+end, strconv.FormatUint(l.Token, 10)
	reply, err := s.redis.Run(ctx, sc, l.Owner, append([]any{nil, nil, 2, &st.key, &key, &st.value, &token}, args...))
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}

// Forget implements [driver.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	return failed("forget", s.forgetState(ctx, key))
}

func (s *Store) forgetState(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	state := s.lockKey(key) + stateEnd
	reply, err := s.redis.Run(ctx, forgetScript, "", []any{nil, nil, 1, &state})
	if err == nil {
		_, err = parseCode(reply.Value, 1)
	}
	return err
}

// parseSaved reads the value of a state: "token number data", or "" if there is none.
func parseSaved(item any) (*driver.Saved, bool) {
	text, ok := item.(string)
	if !ok || text == "" {
		return new(driver.Saved), ok
	}
	first, rest, _ := strings.Cut(text, " ")
	_, data, found := strings.Cut(rest, " ")
	token, ok := parseToken(first)
	return &driver.Saved{Data: []byte(data), Token: token}, ok && found
}

// metadataTTL is how long the server keeps metadata of SetMetadata. Nothing extends it, so it
// outlasts any leadership in practice. The release of the lock deletes them before; after a crash of the
// leader, the release by the next one does.
const metadataTTL = 365 * 24 * time.Hour

// SetMetadata implements [driver.Store] in mode Exclusive. The server forgets the
// metadata after a year, and Inspect then shows those of the Acquire again.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	return failed("set metadata", s.keep(ctx, &l, "metadata", metadataEnd, metadataScript, &metadata, metadataTTL.Milliseconds()))
}
