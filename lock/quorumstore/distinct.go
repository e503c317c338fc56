// The check that no server is a member twice.

package quorumstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// pairs records which members are known to be different servers. A server that is a
// member twice, under two addresses, would be a majority of itself.
//
// All members know one attempt by the same owner. A server that receives the attempt
// twice, through two members, answers both with the same token. Equal tokens are no
// proof, because two servers with equal clocks may grant the same number. Members with
// equal tokens are therefore asked for a lock with a random key, each for another owner.
// A refusal proves that they are one server, because no other client can hold that lock.
// Members with different tokens for one new grant are two servers.
type pairs struct {
	undecided  atomic.Int64        // number of pairs not known to be two servers
	known      map[[2]int]relation // guarded by the Store's mu, like the fields below
	retryAfter time.Time           // suspected members are not probed before this time
}

// probePause is the time without probes after a suspected member failed to answer one.
const probePause = 10 * time.Second

type relation uint8

const (
	unknownPair     relation = iota
	suspected                // they returned equal tokens
	distinctServers          // they are two servers
)

// set records what is known of two members. The caller holds the Store's mu.
func (p *pairs) set(i, j int, k relation) {
	pair := [2]int{min(i, j), max(i, j)}
	if p.known[pair] >= k {
		return
	}
	p.known[pair] = k
	if k == distinctServers {
		p.undecided.Add(-1)
	}
}

// errSameServer is the error of every Acquire after two members proved to be one server.
var errSameServer = errors.New("the stores must be independent servers")

// compareTokens records what the tokens of a new grant show about the members.
func (q *Store) compareTokens(g *grant) {
	if q.pairs.undecided.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		for j := range i {
			a, b := &g.copies[i], &g.copies[j]
			switch {
			case a.state != present || b.state != present || a.lease.Token == 0 || b.lease.Token == 0:
			case a.lease.Token == b.lease.Token:
				q.pairs.set(i, j, suspected)
			default:
				q.pairs.set(i, j, distinctServers)
			}
		}
	}
}

// suspects returns the members that may be the same server as another member.
func (q *Store) suspects() (members []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Now().Before(q.pairs.retryAfter) {
		return nil
	}
	for pair, k := range q.pairs.known {
		if k == suspected {
			members = append(members, pair[:]...)
		}
	}
	slices.Sort(members)
	return slices.Compact(members)
}

// checkDistinct returns an error if two members are the same server. It probes the
// members whose tokens were equal. A member that fails to answer remains suspected, and a
// later Acquire probes it again.
func (q *Store) checkDistinct(ctx context.Context, r *driver.Request) error {
	if q.pairs.undecided.Load() == 0 {
		return nil
	}
	members := q.suspects()
	if len(members) == 0 {
		return nil
	}
	over := make(chan struct{}) // no probe is released before the last member has answered
	defer close(over)
	key, began := probeKey(r.Key), time.Now()
	var granted []int
	for _, i := range members {
		switch err := q.probe(ctx, i, r, key, over); {
		case err == nil:
			granted = append(granted, i)
		case ctx.Err() == nil && len(granted) > 0 && errors.As(err, new(*driver.HeldError)):
			return q.markSame(i, granted)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(began) < r.TTL/2 { // otherwise the first probe's lock may have ended before the last probe
		for n, i := range granted {
			for _, j := range granted[:n] {
				q.pairs.set(i, j, distinctServers)
			}
		}
	}
	if len(granted) < len(members) {
		q.pairs.retryAfter = time.Now().Add(probePause)
	}
	return nil
}

// probe acquires the lock of a probe from one member, for an Acquire, and releases it in the background when the probes are
// over.
func (q *Store) probe(ctx context.Context, i int, of *driver.Request, key string, over <-chan struct{}) error {
	r := driver.Request{Key: key, Owner: q.tryOwner(of.Owner), TTL: of.TTL}
	answers, err := callAll(ctx, q, attemptTimeout(r.TTL), []int{i}, func(ctx context.Context, _ int) (struct{}, error) {
		_, err := q.members[i].acquire(ctx, r)
		if err == nil || !driver.VerdictOf(err).LeavesNothing() {
			q.running.Go(func() {
				<-over
				q.members[i].releaser.Add(driver.Lease{Request: r, Unanswered: err != nil})
			})
		}
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	a, err := next(ctx, answers)
	return cmp.Or(err, a.err)
}

// probeKey returns a key that no other client uses. It has the prefix of the given key,
// so that access rules for the key apply.
func probeKey(key string) string {
	random := ":" + rand.Text()
	return key[:min(len(key), driver.MaxKeyLen-len(random))] + random
}

// markSame records, permanently, that a member is the same server as one of the others.
func (q *Store) markSame(i int, others []int) error {
	as := fmt.Sprintf("store %d", others[0])
	if len(others) > 1 {
		as = fmt.Sprintf("one of the stores %v", others)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wrong = fmt.Errorf("quorumstore: store %d is the same server as %s: %w", i, as, errSameServer)
	return q.wrong
}
