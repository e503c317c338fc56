// The check that no server is a member twice.

package quorumstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
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

func (p *pairs) init(members int) {
	p.known = make(map[[2]int]relation)
	p.undecided.Store(int64(members * (members - 1) / 2))
}

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
	tokens := g.tokens()
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, token := range tokens {
		for j, other := range tokens[:i] {
			switch {
			case token == 0 || other == 0:
			case token == other:
				q.pairs.set(i, j, suspected)
			default:
				q.pairs.set(i, j, distinctServers)
			}
		}
	}
}

// tokens returns the token of each member, or 0 if the member has not granted the
// request.
func (g *grant) tokens() []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	tokens := make([]uint64, len(g.copies))
	for i := range g.copies {
		if c := &g.copies[i]; c.state == present {
			tokens[i] = c.lease.Token
		}
	}
	return tokens
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
	p := &probes{quorum: q, request: r, key: probeKey(r.Key)}
	defer p.releaseAll()
	began := time.Now()
	var granted []int
	for _, i := range members {
		switch err := p.ask(ctx, i); {
		case err == nil:
			granted = append(granted, i)
		case ctx.Err() == nil && len(granted) > 0 && errors.As(err, new(*driver.HeldError)):
			return q.markSame(i, granted)
		}
	}
	if time.Since(began) < r.TTL/2 { // otherwise the first probe's lock may have ended before the last probe
		q.markDistinct(granted)
	}
	if len(granted) < len(members) {
		q.mu.Lock()
		q.pairs.retryAfter = time.Now().Add(probePause)
		q.mu.Unlock()
	}
	return nil
}

// probes acquire the lock with a random key from several members, one after the other.
// They hold all acquired locks until the last member has answered.
type probes struct {
	quorum  *Store
	request *driver.Request // the Acquire that needs the result
	key     string

	mu      sync.Mutex // guards all below
	granted []answer[driver.Lease]
	ended   bool
}

// ask probes one member.
func (p *probes) ask(ctx context.Context, i int) error {
	q := p.quorum
	r := driver.Request{Key: p.key, Owner: q.tryOwner(p.request.Owner), TTL: p.request.TTL}
	answers, err := callAll(ctx, q, attemptTimeout(r.TTL), []int{i}, func(ctx context.Context, _ int) (struct{}, error) {
		_, err := q.members[i].acquire(ctx, r)
		if err == nil || !driver.VerdictOf(err).LeavesNothing() {
			p.record(i, driver.Lease{Request: r, Unanswered: err != nil})
		}
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	a, err := next(ctx, answers)
	return cmp.Or(err, a.err)
}

// record stores a lease that a member has granted, or may still grant.
func (p *probes) record(i int, l driver.Lease) {
	p.mu.Lock()
	late := p.ended
	if !late {
		p.granted = append(p.granted, answer[driver.Lease]{at: i, value: l})
	}
	p.mu.Unlock()
	if late {
		p.quorum.members[i].releaser.Add(l)
	}
}

// releaseAll releases all probes in the background.
func (p *probes) releaseAll() {
	p.mu.Lock()
	p.ended = true
	granted := p.granted
	p.mu.Unlock()
	for _, a := range granted {
		p.quorum.members[a.at].releaser.Add(a.value)
	}
}

// probeKey returns a key that no other client uses. It has the prefix of the given key,
// so that access rules for the key apply.
func probeKey(key string) string {
	random := ":" + rand.Text()
	return key[:min(len(key), driver.MaxKeyLen-len(random))] + random
}

// markDistinct records that all the given members are different servers.
func (q *Store) markDistinct(members []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, i := range members {
		for _, j := range members[:n] {
			q.pairs.set(i, j, distinctServers)
		}
	}
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
