// Package waitgraph finds deadlocks between the clients of a store: processes that wait for
// locks of each other. It only reads.
//
// # What a cycle means
//
// The store knows which client holds a lock and which client waits for it. A [Cycle] is a chain
// of such waits that returns to its first client: A waits for a lock of B, and B waits for a
// lock of A. A client that waits for a lock that it holds itself is a cycle of length 1.
//
// A client usually is a process with many goroutines, and the store does not know which of them
// holds a lock. A cycle is a deadlock for certain if, in each of its clients, the goroutine that
// waits is the one that would unlock the lock that the previous client waits for. Otherwise it is only possible: a second goroutine
// may hold that lock, and may unlock it soon. Two goroutines of one process that contend for a mutex are a cycle of length 1, and harmless.
//
// # When a cycle was there
//
// The store cannot show all locks at one instant. Cycles therefore looks twice: at all locks,
// and then again at those that belong to a cycle. It returns a cycle only if each of its waiters
// waited at both looks and each of its leases, distinguished by their tokens, was held at both. So
// there was an instant between the looks at which all of them were held, and all of the clients
// waited, unless one of them gave up and began to wait anew in the meantime. When Cycles
// returns, the cycle may be gone. A client that always is in a cycle is in one that each call finds.
//
// # Kinds of locks
//
// The locks of one key are held by several clients if they are shared:
//
//   - A waiter for a Mutex, a Reentrant, an Election or an RWMutex needs all holders to leave,
//     because requests are granted in order. This includes a reader that queues behind a
//     writer. One holder that never leaves blocks it, so each holder is an edge.
//   - A waiter for a Semaphore or a Batch may need only some of the holders to leave. It counts
//     only if none of them can: if each holder is a client with a wait that counts itself. So a
//     deadlock of a Semaphore of which one permit is in use by a client that waits for nothing
//     is not reported, and rightly. A request that needs several permits, or members
//     of particular holders, may be deadlocked and still not be reported.
//
// # What is not seen
//
// Stores without a queue, such as package quorumstore, do not know their waiters. Of the holders
// of a key [lock.Client.Inspect] shows 16, and of its waiters 100; others are not looked at, and
// a Semaphore or Batch with more holders is left out. A client whose goroutines wait for one
// mutex has one place for all of them. A lease that another process took over with
// Client.Resume is shown under the client that acquired it. A process that has crashed counts
// until its leases have ended. A lock that a program takes in some other system, or a mutex of
// package sync, is not known.
package waitgraph

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Cycle is a possible deadlock: each waiter waits for the holder, which is the client of the
// next Wait. The holder of the last Wait is the client of the first one. No client is in a cycle
// twice. The first client is the one with the least name, so that a cycle looks the same
// whenever it is found.
type Cycle []Wait

// Wait records that one client waits for a lease of another client, or of its own.
type Wait struct {
	Key    string
	Waiter driver.Place  // the first place of the client in the queue of the key
	Holder driver.Holder // the first lease of the next client, at the second look
}

// Cycles returns cycles between clients that wait for locks with keys that begin with prefix: a
// shortest one for each client that is in none of those before it, and one of length 1 for each
// client that waits for itself. The prefix "" means all locks. Read the package documentation for
// what a cycle proves and what it does not. Cycles of length 1 come last, and the others by their
// length. A cycle that shares all its clients with others may show only after one of them has ended.
//
// Cycles lists the locks and inspects each of them; see [lock.Client.List] for what that costs. It
// returns no cycles together with an error. It is safe for concurrent use.
//
// Errors are those of [lock.Client.List] and [lock.Client.Inspect].
func Cycles(ctx context.Context, client *lock.Client, prefix string) ([]Cycle, error) {
	first, err := look(ctx, client, client.List(ctx, prefix))
	if err != nil {
		return nil, err
	}
	before := blocked(waitsOf(first))
	if len(before) == 0 {
		return nil, nil
	}
	again := make(map[string]error)
	for _, w := range before {
		again[w.key] = nil
	}
	second, err := look(ctx, client, maps.All(again))
	if err != nil {
		return nil, err
	}
	cycles := newGraph(blocked(confirmed(before, waitsOf(second)))).cycles()
	slices.SortStableFunc(cycles, func(a, b Cycle) int { return rank(a) - rank(b) })
	return cycles, nil
}

// rank orders cycles by length, and those of length 1 behind the others.
func rank(c Cycle) int {
	if len(c) == 1 {
		return math.MaxInt
	}
	return len(c)
}
