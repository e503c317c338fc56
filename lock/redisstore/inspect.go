// Inspect and ForceRelease.

package redisstore

import (
	"context"
	"errors"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Inspect implements [driver.Store].
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	info, err := s.inspectExclusive(ctx, key)
	if errors.Is(err, driver.ErrWrongType) { // the key may hold a shared lock
		info, _, err = s.inspectShared(ctx, key)
	}
	return info, failed("inspect", err)
}

func (s *Store) inspectExclusive(ctx context.Context, key string) (driver.Info, error) {
	if err := checkKey(key); err != nil {
		return driver.Info{}, err
	}
	k := s.keys(key, "")
	metadata := k.lock + metadataEnd
	reply, err := s.redis.Run(ctx, inspectScript, "", []any{nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &metadata})
	if err != nil {
		return driver.Info{}, err
	}
	return parseInfo(reply.Value)
}

// ForceRelease implements [driver.Store]. A first request reads the tokens of the
// holders. Further requests take the lock from the holders of these tokens, about 400 of
// them at a time. If ctx ends before the last request, the other holders keep their leases.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	return failed("force release", s.forceRelease(ctx, key))
}

func (s *Store) forceRelease(ctx context.Context, key string) error {
	info, err := s.inspectExclusive(ctx, key)
	switch {
	case errors.Is(err, driver.ErrWrongType):
		return s.forceShared(ctx, key)
	case err != nil:
		return err
	case info.Held == 0 && info.FreeIn == 0:
		return driver.ErrNotHeld
	}
	token := info.Token // of the last holder, if the lock is kept
	if info.Held > 0 {
		token = info.Holders[0].Token
	}
	k := s.keys(key, "")
	state, metadata := k.lock+stateEnd, k.lock+metadataEnd
	reply, err := s.redis.Run(ctx, forceScript, "", []any{
		nil, nil, allKeys, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone, &state, &metadata, token,
	})
	if err != nil {
		return err
	}
	return rediskit.ParseDone(s.result(ctx, k.lock, reply.Value))
}
