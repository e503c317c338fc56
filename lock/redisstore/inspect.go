package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// Info is what the server knows of a lock at one instant.
type Info struct {
	Held      bool
	Token     uint64        // of the holder, 0 if there is none
	ExpiresIn time.Duration // until the lease ends unless it is renewed, 0 if there is none
	Waiting   int           // owners in the queue, those included that have died in it
	LastToken uint64        // the last one granted, 0 if it is forgotten
}

// Inspect shows a lock. Owners are not shown: they are secrets.
func (s *Store) Inspect(ctx context.Context, key string) (Info, error) {
	info, err := s.inspect(ctx, key)
	if err != nil {
		return Info{}, failed("inspect", key, err)
	}
	return info, nil
}

func (s *Store) inspect(ctx context.Context, key string) (Info, error) {
	info, err := s.inspectExclusive(ctx, key)
	if !errors.Is(err, lock.ErrWrongType) {
		return info, err
	}
	shared, _, err := s.inspectShared(ctx, key)
	if err != nil {
		return Info{}, err
	}
	info = Info{Held: shared.Held > 0, Waiting: shared.Waiting, LastToken: shared.Token}
	for _, h := range shared.Holders {
		info.Token = max(info.Token, h.Token)
		info.ExpiresIn = max(info.ExpiresIn, h.ExpiresIn)
	}
	return info, nil
}

func (s *Store) inspectExclusive(ctx context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	k := s.keys(key, "")
	reply, err := s.run(ctx, inspectScript, "", nil, nil, 3, &k.lock, &k.token, &k.queue)
	if err != nil {
		return Info{}, err
	}
	return parseInfo(reply)
}

// ForceRelease takes a lock away from its holder, whoever that is, and gives it to
// the next in the queue. The holder is told at its next renewal: until then two
// may believe that they hold the lock, and only the fencing token tells them
// apart. It returns lock.ErrNotHeld if nobody holds the lock, or not the one any
// more whom it had seen.
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
	}
	k := s.keys(key, "")
	reply, err := s.run(ctx, forceScript, "", nil, nil, 4, &k.lock, &k.token, &k.queue, &k.places, info.Token, memory.Milliseconds())
	if err != nil {
		return err
	}
	done, err := parseCode(reply, 1)
	if err != nil {
		return err
	}
	if done == 0 {
		return lock.ErrNotHeld
	}
	return nil
}
