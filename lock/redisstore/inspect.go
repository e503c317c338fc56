package redisstore

import (
	"context"
	"errors"

	"github.com/leasewheel/leasewheel/lock"
)

var _ lock.Inspector = (*Store)(nil)

// Inspect implements [lock.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (lock.Info, error) {
	info, err := s.inspectExclusive(ctx, key)
	if errors.Is(err, lock.ErrWrongType) { // or what a shared lock is
		info, _, err = s.inspectShared(ctx, key)
	}
	if err != nil {
		return lock.Info{}, failed("inspect", key, err)
	}
	return info, nil
}

func (s *Store) inspectExclusive(ctx context.Context, key string) (lock.Info, error) {
	if err := checkKey(key); err != nil {
		return lock.Info{}, err
	}
	k := s.keys(key, "")
	reply, err := s.run(ctx, inspectScript, "", nil, nil, 3, &k.lock, &k.token, &k.queue)
	if err != nil {
		return lock.Info{}, err
	}
	return parseInfo(reply)
}

// ForceRelease implements [lock.Inspector]. What is taken away is what a first
// request has seen; a second one names the tokens of that.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	if err := s.forceRelease(ctx, key); err != nil {
		return failed("force the release of", key, err)
	}
	return nil
}

func (s *Store) forceRelease(ctx context.Context, key string) error {
	info, err := s.inspectExclusive(ctx, key)
	switch {
	case errors.Is(err, lock.ErrWrongType):
		return s.forceShared(ctx, key)
	case err != nil:
		return err
	case info.Held == 0:
		return lock.ErrNotHeld
	}
	k := s.keys(key, "")
	reply, err := s.run(ctx, forceScript, "", nil, nil, 4, &k.lock, &k.token, &k.queue, &k.places, info.Holders[0].Token, memory.Milliseconds())
	if err != nil {
		return err
	}
	done, err := parseCode(reply, 1)
	if err == nil && done == 0 {
		err = lock.ErrNotHeld
	}
	return err
}
