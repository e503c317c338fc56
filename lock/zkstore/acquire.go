// Acquire, and a writer that becomes a reader.

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
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
	var l driver.Lease
	err := s.call(ctx, "acquire", func(ctx context.Context) error {
		return s.withRoom(ctx, r, func(c *client) (err error) {
			l, err = c.acquire(ctx, r)
			return err
		})
	})
	return l, err
}

func (s *client) acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	all, err := s.nodesFor(ctx, r)
	switch {
	case errors.Is(err, zk.ErrNoServer) && ctx.Err() == nil: // later, a node may have been created
		return driver.Lease{}, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	case err != nil:
		return driver.Lease{}, err
	case s.isGivenUp(r.Owner):
		return driver.Lease{}, errGivenUp
	}
	switch own := find(all, r.Owner); {
	case own >= 0 && before(all, own, all[own].mode) < 0:
		return s.again(ctx, r, all, own)
	case own >= 0, before(all, len(all), r.Mode) >= 0, s.isWorn(all):
		return driver.Lease{}, s.taken(ctx, r.Key, all)
	}
	start := time.Now()
	path, err := s.create(ctx, r, start)
	if err != nil {
		return driver.Lease{}, err
	}
	all, err = s.nodesFor(ctx, r)
	if err != nil {
		return driver.Lease{}, err
	}
	own := find(all, r.Owner)
	switch {
	case own < 0:
		return driver.Lease{}, errEndedMeanwhile
	case before(all, own, r.Mode) >= 0: // another was faster
		if err := s.remove(ctx, path); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Lease{}, err
		}
		s.forget(path)
		return driver.Lease{}, s.taken(ctx, r.Key, all)
	}
	if s.isGivenUp(r.Owner) {
		return driver.Lease{}, errGivenUp
	}
	return s.grant(ctx, r, s.lockPath(r.Key)+"/"+all[own].name, start)
}

// again answers a request of an owner that holds the lock. A Read turns the writer into a reader. A
// Write by a reader is a message that comes late.
func (s *client) again(ctx context.Context, r driver.Request, all []node, own int) (driver.Lease, error) {
	path := s.lockPath(r.Key) + "/" + all[own].name
	switch {
	case r.Mode == driver.Write && all[own].mode == driver.Read:
		return driver.Lease{}, s.taken(ctx, r.Key, all)
	case r.Mode == driver.Read && all[own].mode == driver.Write:
		if err := s.turn(ctx, path); err != nil {
			return driver.Lease{}, err
		}
	}
	return s.confirm(ctx, r, path)
}

// turn makes the writer with a node a reader. Readers that wait for the writer watch the node.
func (s *client) turn(ctx context.Context, path string) error {
	err := s.change(ctx, path, func(n *seen) error {
		n.content.Reader = true
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return errEndedMeanwhile
	}
	return err
}

// confirm grants the lock to the owner of a node that holds it, or extends the lease that it has. It asks
// a quorum first whether the node is still there, because reads may be old.
func (s *client) confirm(ctx context.Context, r driver.Request, path string) (driver.Lease, error) {
	start := time.Now()
	k := leaseKey{r.Key, r.Owner}
	if !s.hold(k, path, start.Add(r.TTL)) { // there is no record yet if the answer to the creation was lost
		return driver.Lease{}, errEndedMeanwhile
	}
	if _, err := s.checkNodes(ctx, []string{path}); err != nil {
		return driver.Lease{}, err
	}
	return s.grant(ctx, r, path, start)
}

// grant reads the node of a lock that an owner has since start at the latest, and returns the lease.
func (s *client) grant(ctx context.Context, r driver.Request, path string, start time.Time) (driver.Lease, error) {
	got, err := s.get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return driver.Lease{}, errEndedMeanwhile
	case err != nil:
		return driver.Lease{}, err
	case got.stat.EphemeralOwner != s.link.current():
		s.forget(path)
		return driver.Lease{}, errEndedMeanwhile
	}
	token := tokenOf(got)
	if !s.granted(path, token, got.stat.EphemeralOwner, start.Add(r.TTL)) {
		return driver.Lease{}, errEndedMeanwhile
	}
	if err := s.link.lasts(ctx, got.stat.EphemeralOwner, start.Add(r.TTL)); err != nil {
		return driver.Lease{}, err
	}
	return driver.Lease{Request: r, Token: token, Sent: start}, nil
}

// taken returns the error for a lock that others have: the longest TTL of the first holders.
func (s *client) taken(ctx context.Context, key string, all []node) error {
	shown := all[:min(holders(all), maxHolders)]
	ttls := make([]time.Duration, len(shown))
	err := storekit.Each(len(shown), maxReads, func(i int) error {
		got, err := s.get(ctx, s.lockPath(key)+"/"+shown[i].name)
		ttls[i] = time.Duration(got.content.TTL) * time.Millisecond
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return &driver.HeldError{Key: key, ExpiresIn: slices.Max(ttls)}
}
