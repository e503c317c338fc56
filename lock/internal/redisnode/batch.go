// Batch, a pipeline of scripts, and WAIT, which asks how many replicas have confirmed it.

package redisnode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batch is a pipeline of scripts. The zero Batch is ready for use, and a Batch can be used again after Reset.
type Batch struct {
	// MayWait is set if the batch renews nothing. It then has no lane for renewals.
	MayWait bool

	args   []any // of all scripts since they last had to move
	asking bool  // of the next script
	dials  bool  // the batch makes the connection, behind which the server may be another one
	calls  []call
	acks   acks
	info   *redis.StringCmd // what the server has answered to notices.identify; nil if it was not asked
	links  int64            // of that question
}

// Asking makes Send send ASKING before the next script, because the node is still importing the slot.
func (b *Batch) Asking() { b.asking = true }

// Add adds a script and returns a slice for its n arguments. The caller sets all but the first two: the
// number of keys, the keys and the other arguments.
func (b *Batch) Add(sc *Script, n int) []any {
	start := len(b.args)
	b.args = slices.Grow(b.args, n)[:start+n] // scripts that were added before keep their memory
	args := b.args[start:]
	b.calls = append(b.calls, call{script: sc, args: args, asking: b.asking})
	b.asking = false
	return args
}

// Send sends the scripts of a batch and waits for the replies, for at most Options.Timeout, or 3 s if that is
// less and the batch renews, and the time that replicas have to confirm. It returns an error if there are no replies. The caller has called Calls.Begin.
func (n *Node) Send(ctx context.Context, b *Batch) error {
	q := n.renewals
	switch {
	case b.acks.timeout > 0:
		q = n.confirmed
	case b.MayWait:
		q = n.others
	}
	until := time.Now().Add(q.bound + b.acks.timeout)
	l, a := q.enter(ctx, until, call{}, true)
	if l == nil {
		return a.Err
	}
	defer q.pass(l)
	_, err := q.exec(ctx, l, until, b.calls, b)
	return err
}

// Reply returns the reply to script i, counted from 0 in the order of Add. The error is
// unchanged from go-redis.
func (b *Batch) Reply(i int) (any, error) { return b.calls[i].cmd.Result() }

// Len returns the number of scripts.
func (b *Batch) Len() int { return len(b.calls) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.args)
	clear(b.calls)
	*b = Batch{args: b.args[:0], calls: b.calls[:0]}
}

// acks asks how many replicas have confirmed a pipeline of scripts.
//
// WAIT answers for the writes of its own connection, and blocks that connection on the server.
// So it is sent in the same pipeline as the scripts, right after them, and such pipelines have
// lanes of their own (Node.confirmed). Some scripts of a pipeline may write nothing, and the
// server then answers for an earlier write. A script that always writes comes before WAIT
// therefore.
//
// The replication of a server is one stream. A replica that confirms this write has all
// writes before it, on whatever connection they came: also the write of the client that has
// released a lock and so handed it over.
type acks struct {
	keys     []*string // of leases; one that still exists suffices
	replicas int
	timeout  time.Duration // 0: Acknowledge was not called
	touched  []*redis.Cmd
	waited   *redis.Cmd
}

// touchSource writes to a key without changing it.
const touchSource = `local left = redis.call('PTTL', KEYS[1])
if left <= 0 then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], left)`

var (
	errNotTouched = errors.New("the leases have ended before the replicas were asked")
	errNoWait     = errors.New("the replicas were not asked")
)

// Acknowledge makes Send ask how many replicas have confirmed the scripts. The server answers
// when that many have, and at the latest after timeout. The keys are those of leases in the
// batch, and one of them must still exist then. Options.Acks must be set.
func (b *Batch) Acknowledge(keys []*string, replicas int, timeout time.Duration) {
	b.acks = acks{keys: keys, replicas: replicas, timeout: max(timeout, time.Millisecond)} // WAIT 0 has no end
}

// Replicas returns how many replicas have confirmed the scripts of a batch that was sent.
// explain returns the error to return for one of go-redis.
func (b *Batch) Replicas(explain func(error) error) (int, error) {
	a := &b.acks
	if a.waited == nil {
		return 0, errNoWait
	}
	if err := a.waited.Err(); err != nil {
		return 0, explain(err)
	}
	n, ok := a.waited.Val().(int64)
	if !ok || n < 0 {
		return 0, errNoWait
	}
	err := errNotTouched
	for _, touched := range a.touched {
		switch {
		case touched.Err() != nil:
			err = explain(touched.Err())
		case touched.Val() == int64(1):
			return int(n), nil
		}
	}
	return 0, err
}

// add adds the write and WAIT to a pipeline.
func (a *acks) add(ctx context.Context, pipe redis.Pipeliner) {
	a.touched = nil
	for _, key := range a.keys {
		touch := redis.NewCmd(ctx, "eval", touchSource, 1, key)
		a.touched = append(a.touched, touch)
		_ = pipe.Process(ctx, touch) // only queues the command
	}
	a.waited = redis.NewCmd(ctx, "wait", a.replicas, a.timeout.Milliseconds())
	_ = pipe.Process(ctx, a.waited)
}
