// Asking several servers, and counting their answers.

package redsync

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
)

// answer is the answer of one server: it executed the request, it refused because the key has
// another value, or it failed.
type answer struct {
	node int
	ok   bool
	err  error
}

// refused reports whether the key has another value.
func (a answer) refused() bool { return !a.ok && a.err == nil }

// tally counts the answers to one request.
type tally struct {
	quorum   int
	ok       int    // nodes that executed the request
	taken    []int  // nodes whose key has another value
	answered []bool // by node
	err      error  // of all other nodes
}

func (t *tally) add(a answer) {
	t.answered[a.node] = true
	switch {
	case a.ok:
		t.ok++
	case a.refused():
		t.taken = append(t.taken, a.node)
		t.err = errors.Join(t.err, &ErrNodeTaken{Node: a.node})
	case errors.Is(a.err, ErrLockAlreadyExpired):
		t.err = errors.Join(t.err, ErrLockAlreadyExpired)
	default:
		t.err = errors.Join(t.err, &RedisError{Node: a.node, Err: a.err})
	}
}

// decided reports whether further answers cannot change the result.
func (t *tally) decided() bool { return t.ok >= t.quorum || len(t.taken) >= t.quorum }

// failRest adds an error for each node without an answer.
func (t *tally) failRest(why error) {
	for node, answered := range t.answered {
		if !answered {
			t.add(answer{node: node, err: why})
		}
	}
}

// result returns how many nodes executed the request, and the errors of the others.
func (t *tally) result() (int, error) {
	if len(t.taken) >= t.quorum {
		return t.ok, &ErrTaken{Nodes: t.taken}
	}
	return t.ok, t.err
}

// collect waits for the answers of all nodes, or until ctx ends. Once the result is certain, collect
// waits for the other nodes for at most m.timeout, and not at all with failFast.
func (m *Mutex) collect(ctx context.Context, answers <-chan answer) (int, error) {
	t := tally{quorum: m.quorum(), answered: make([]bool, len(m.pools))}
	var enough <-chan time.Time
	for range m.pools {
		if t.decided() && m.failFast {
			break
		}
		if t.decided() && enough == nil {
			timer := time.NewTimer(m.timeout())
			defer timer.Stop()
			enough = timer.C
		}
		select {
		case a := <-answers:
			t.add(a)
		case <-enough:
			return t.result()
		case <-ctx.Done():
			for len(answers) > 0 {
				t.add(<-answers)
			}
			t.failRest(whyEnded(ctx))
			return t.result()
		}
	}
	return t.result()
}

// forEachNode calls f once for each node, on goroutines of their own. f waits for its turn before it
// sends anything. finish is called when all calls have ended.
func (m *Mutex) forEachNode(finish func(), f func(node int, turn <-chan struct{})) {
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

// A request is sent on one connection. It reports whether the server executed it. False without an
// error means that the key has another value.
type request func(conn redis.Conn) (bool, error)

// callAll sends a request to all nodes and counts the answers. It stops waiting when ctx ends. The
// requests themselves use the context sending. Both are bounded by m.requestTimeout.
func (m *Mutex) callAll(ctx, sending context.Context, request request) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, m.requestTimeout())
	defer cancel()
	sending, finish := context.WithTimeout(sending, m.requestTimeout())
	answers := make(chan answer, len(m.pools))
	m.forEachNode(finish, func(node int, turn <-chan struct{}) {
		_, _ = m.call(sending, answers, node, turn, request)
	})
	return m.collect(ctx, answers)
}

// call sends the request to a node when it is the call's turn. It sends exactly one answer to answers
// and returns it. sent is false if nothing was sent.
func (m *Mutex) call(ctx context.Context, answers chan<- answer, node int, turn <-chan struct{}, request request) (a answer, sent bool) {
	a = answer{node: node, err: errExited}
	defer func() { answers <- a }()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		a.err = whyEnded(ctx)
		return a, false
	}
	conn, err := m.pools[node].Get(ctx)
	if err != nil {
		a.err = err
		return a, false
	}
	defer func() { _ = conn.Close() }()
	a.ok, a.err = request(conn)
	return a, true
}
