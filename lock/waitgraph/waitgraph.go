// This file is about Cycles, which finds possible deadlocks.

package waitgraph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock"
)

// MaxCycles is the largest number of cycles that [Cycles] returns. The number of cycles can grow
// exponentially with that of the locks.
const MaxCycles = 100

// Cycle is a possible deadlock: each waiter waits for the holder, which is the client of the
// next Wait. The holder of the last Wait is the client of the first one. No client is in a cycle
// twice. The first client is the one with the least name, so that a cycle looks the same
// whenever it is found.
type Cycle []Wait

// Wait says that one client waits for a lease of another client, or of its own.
type Wait struct {
	Key    string
	Waiter lock.Place  // the first place of the client in the queue of the key
	Holder lock.Holder // the first lease of the next client, at the second look
}

// String describes the cycle in one line. It quotes keys and metadata, because other processes
// have chosen them. It contains no times, so it is equal for a cycle that stays.
func (c Cycle) String() string {
	var s strings.Builder
	for i, w := range c {
		if i > 0 {
			s.WriteString("; ")
		}
		fmt.Fprintf(&s, "client %s (%s) waits for %s, which client %s (%s) holds with token %d",
			w.Waiter.Client, basic.Quote(w.Waiter.Metadata), basic.Quote(w.Key), w.Holder.Client, basic.Quote(w.Holder.Metadata), w.Holder.Token)
	}
	return s.String()
}

// Cycles returns the elementary cycles between clients that wait for locks with keys that begin
// with prefix, each once. The prefix "" means all locks. Read the package documentation for what
// a cycle proves and what it does not. Cycles of length 1 come last, and the others by their
// length. If there are more than [MaxCycles], some are left out, those of length 1 first.
//
// Cycles lists the locks and inspects each of them, up to 8 at a time; see
// [lock.Client.List] for what that costs. It returns no cycles together with an error. It is
// safe for concurrent use.
//
// Errors are those of [lock.Client.List] and [lock.Client.Inspect], and errors.ErrUnsupported if
// the store has no queue.
func Cycles(ctx context.Context, client *lock.Client, prefix string) ([]Cycle, error) {
	if ctx == nil {
		return nil, basic.ErrNilContext
	}
	if !client.Queues() {
		return nil, unqueued(ctx, client, prefix)
	}
	first, err := look(ctx, client, client.List(ctx, prefix))
	if err != nil {
		return nil, err
	}
	before := blocked(waitsOf(first))
	if len(before) == 0 {
		return nil, nil
	}
	second, err := look(ctx, client, keysOf(before))
	if err != nil {
		return nil, err
	}
	cycles := newGraph(blocked(confirmed(before, waitsOf(second)))).cycles(MaxCycles)
	slices.SortStableFunc(cycles, func(a, b Cycle) int { return rank(a) - rank(b) })
	return cycles, nil
}

// unqueued returns the error for a client that cannot list locks, or whose store has no queue.
func unqueued(ctx context.Context, client *lock.Client, prefix string) error {
	for _, err := range client.List(ctx, prefix) {
		if err != nil {
			return err
		}
		break
	}
	return fmt.Errorf("waitgraph: the store has no queue, so its waiters are not known: %w", errors.ErrUnsupported)
}

// rank orders cycles by length, and those of length 1 behind the others.
func rank(c Cycle) int {
	if len(c) == 1 {
		return math.MaxInt
	}
	return len(c)
}
