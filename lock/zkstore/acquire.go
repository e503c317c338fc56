package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var (
	errGivenUp        = fmt.Errorf("zkstore: %w: the acquisition was given up", driver.ErrNotAcquired)
	errNewSession     = fmt.Errorf("%w: the session ended during the request", driver.ErrUnavailable)
	errEndedMeanwhile = fmt.Errorf("%w: the lease of this owner ended during the request", driver.ErrUnavailable)
)

// Acquire implements [driver.Store]. It does not overtake waiters. The token is the transaction
// that created the node of the owner.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return driver.Lease{}, err
	}
	defer end()
	l, err := s.acquire(ctx, r)
	var held *driver.HeldError
	switch {
	case err == nil, errors.As(err, &held):
		return l, err
	case errors.Is(err, zk.ErrNoServer) && ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return driver.Lease{}, failed(ctx, "acquire", r.Key, err)
}

func (s *Store) acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	all, err := s.lockNodes(ctx, r.Key)
	switch {
	case err != nil:
		return driver.Lease{}, err
	case s.isGivenUp(r.Owner):
		return driver.Lease{}, errGivenUp
	}
	switch own := find(all, r.Owner); {
	case own == 0:
		return s.confirm(ctx, r, s.lockPath(r.Key)+"/"+all[0].name)
	case len(all) > 0:
		return driver.Lease{}, s.heldBy(ctx, r.Key, all[0])
	}
	start := time.Now()
	path, err := s.create(ctx, r, start)
	if err != nil {
		return driver.Lease{}, err
	}
	all, err = s.lockNodes(ctx, r.Key)
	if err != nil {
		return driver.Lease{}, err
	}
	switch own := find(all, r.Owner); {
	case own < 0:
		return driver.Lease{}, errEndedMeanwhile
	case own > 0: // another was faster
		if err := s.remove(ctx, path); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Lease{}, err
		}
		s.forget(leaseKey{r.Key, r.Owner}, path)
		return driver.Lease{}, s.heldBy(ctx, r.Key, all[0])
	}
	if s.isGivenUp(r.Owner) {
		return driver.Lease{}, errGivenUp
	}
	return s.grant(ctx, r, s.lockPath(r.Key)+"/"+all[0].name, start)
}

// confirm grants the lock to the owner of the first node, or extends the lease that it has. It asks
// a quorum first whether the node is still there, because reads may be old.
func (s *Store) confirm(ctx context.Context, r driver.Request, path string) (driver.Lease, error) {
	start := time.Now()
	k := leaseKey{r.Key, r.Owner}
	rec, ok := s.touch(k, 0, start.Add(r.TTL))
	switch {
	case s.isDying(path):
		return driver.Lease{}, errEndedMeanwhile
	case !ok || rec.path != path: // created by a request whose answer was lost
		s.hold(k, path, start.Add(r.TTL))
	}
	if _, err := s.checkNodes(ctx, []string{path}); err != nil {
		return driver.Lease{}, err
	}
	return s.grant(ctx, r, path, start)
}

// grant reads the node of a lock that an owner has since start at the latest, and returns the lease.
func (s *Store) grant(ctx context.Context, r driver.Request, path string, start time.Time) (driver.Lease, error) {
	got, err := s.get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return driver.Lease{}, errEndedMeanwhile
	case err != nil:
		return driver.Lease{}, err
	case got.stat.EphemeralOwner != s.link.current():
		s.forget(leaseKey{r.Key, r.Owner}, path)
		return driver.Lease{}, errEndedMeanwhile
	}
	token := uint64(got.stat.Czxid) //nolint:gosec // a transaction is above 0
	if !s.granted(leaseKey{r.Key, r.Owner}, path, token, got.stat.EphemeralOwner, start.Add(r.TTL)) {
		return driver.Lease{}, errEndedMeanwhile
	}
	if err := s.link.lasts(ctx, got.stat.EphemeralOwner, start.Add(r.TTL)); err != nil {
		return driver.Lease{}, err
	}
	return driver.Lease{Request: r, Token: token, Sent: start}, nil
}

// heldBy returns the error for a lock that another owner has.
func (s *Store) heldBy(ctx context.Context, key string, holder node) error {
	got, err := s.get(ctx, s.lockPath(key)+"/"+holder.name)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return &driver.HeldError{Key: key, ExpiresIn: time.Duration(got.content.TTL) * time.Millisecond}
}
