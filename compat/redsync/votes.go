package redsync

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/compat/redsync/redis"
)

// vote is the answer of one server: it did what was asked, it refused because the key has
// another value, or it failed.
type vote struct {
	node int
	ok   bool
	err  error
}

// refused reports whether the key has another value.
func (v vote) refused() bool { return !v.ok && v.err == nil }

// ballot counts the answers to one request.
type ballot struct {
	quorum   int
	ok       int
	taken    []int
	answered []bool // by node
	err      error  // of all nodes that did not do what was asked
}

func (b *ballot) add(v vote) {
	b.answered[v.node] = true
	switch {
	case v.ok:
		b.ok++
	case v.refused():
		b.taken = append(b.taken, v.node)
		b.err = errors.Join(b.err, &ErrNodeTaken{Node: v.node})
	case errors.Is(v.err, ErrLockAlreadyExpired):
		b.err = errors.Join(b.err, ErrLockAlreadyExpired)
	default:
		b.err = errors.Join(b.err, &RedisError{Node: v.node, Err: v.err})
	}
}

// decided reports whether the remaining answers cannot change the result.
func (b *ballot) decided() bool { return b.ok >= b.quorum || len(b.taken) >= b.quorum }

// giveUp adds an error for each node without an answer.
func (b *ballot) giveUp(why error) {
	for node, answered := range b.answered {
		if !answered {
			b.add(vote{node: node, err: why})
		}
	}
}

// result returns how many nodes did what was asked, and the errors of the others.
func (b *ballot) result() (int, error) {
	if len(b.taken) >= b.quorum {
		return b.ok, &ErrTaken{Nodes: b.taken}
	}
	return b.ok, b.err
}

// collect waits for the answers of all nodes, or until ctx ends. If the result is certain
// earlier, collect waits for the other nodes at most m.timeout, and not at all with failFast.
func (m *Mutex) collect(ctx context.Context, votes <-chan vote) (int, error) {
	b := ballot{quorum: m.quorum(), answered: make([]bool, len(m.pools))}
	var enough <-chan time.Time
	for range m.pools {
		if b.decided() && m.failFast {
			break
		}
		if b.decided() && enough == nil {
			timer := time.NewTimer(m.timeout())
			defer timer.Stop()
			enough = timer.C
		}
		select {
		case v := <-votes:
			b.add(v)
		case <-enough:
			return b.result()
		case <-ctx.Done():
			for len(votes) > 0 {
				b.add(<-votes)
			}
			b.giveUp(whyEnded(ctx))
			return b.result()
		}
	}
	return b.result()
}

// each calls f once for each node, on goroutines of their own. f waits for its turn before it
// sends anything. finish is called when all calls have ended.
func (m *Mutex) each(finish func(), f func(node int, turn <-chan struct{})) {
	left := new(atomic.Int64)
	left.Store(int64(len(m.pools)))
	m.mu.Lock() // all nodes get the calls in one order, or two calls could wait for each other
	defer m.mu.Unlock()
	for _, node := range m.order {
		turn := m.queues[node].join()
		go func() {
			defer func() {
				m.queues[node].leave(turn)
				if left.Add(-1) == 0 {
					finish()
				}
			}()
			f(node, turn)
		}()
	}
}

// A request is sent on one connection. It returns whether the server did what was asked, false
// without an error if the key has another value.
type request func(conn redis.Conn) (bool, error)

// ask sends a request to all nodes and counts the answers. It waits until ctx ends, and the
// requests use sending. Both are bounded by the time after which the lock expires by itself.
func (m *Mutex) ask(ctx, sending context.Context, request request) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	sending, finish := context.WithTimeout(sending, m.patience())
	votes := make(chan vote, len(m.pools))
	m.each(finish, func(node int, turn <-chan struct{}) {
		_, _ = m.cast(sending, votes, node, turn, request)
	})
	return m.collect(ctx, votes)
}

// cast sends the request to a node and puts exactly one vote into votes, which it also returns.
// sent is false if nothing was sent.
func (m *Mutex) cast(ctx context.Context, votes chan<- vote, node int, turn <-chan struct{}, request request) (v vote, sent bool) {
	v = vote{node: node, err: errExited}
	defer func() { votes <- v }()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		v.err = whyEnded(ctx)
		return v, false
	}
	conn, err := m.pools[node].Get(ctx)
	if err != nil {
		v.err = err
		return v, false
	}
	defer func() { _ = conn.Close() }()
	v.ok, v.err = request(conn)
	return v, true
}
