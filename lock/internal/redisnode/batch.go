// This file is about Batch, a pipeline of scripts, and WAIT, which asks how many replicas have confirmed it.

package redisnode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxBatchTime is the longest time that a batch of renewals waits for replies, even if its context
// allows more.
const MaxBatchTime = 30 * time.Second

// Batch is a pipeline of scripts. The zero Batch is ready for use, and a Batch can be used again after Reset.
type Batch struct {
	args   []any // of all scripts since they last had to move
	asking bool  // of the next script
	calls  []batchCall
	acks   acks
}

// batchCall is one script of a batch.
type batchCall struct {
	script    *Script
	args      []any
	asking    bool       // ASKING must precede the script
	askingCmd *redis.Cmd // if asking
	cmd       *redis.Cmd
	done      bool // has an error or a reply, other than NOSCRIPT
}

// Asking makes Send send ASKING before the next script, because the node is still importing the slot.
func (b *Batch) Asking() { b.asking = true }

// Add adds a script and returns a slice for its n arguments. The caller sets all but the first two: the
// number of keys, the keys and the other arguments.
func (b *Batch) Add(sc *Script, n int) []any {
	start := len(b.args)
	b.args = slices.Grow(b.args, n)[:start+n] // scripts that were added before keep their memory
	args := b.args[start:]
	b.calls = append(b.calls, batchCall{script: sc, args: args, asking: b.asking})
	b.asking = false
	return args
}

// Send sends the scripts of a batch and waits for the replies. If the server does not know a script,
// after a restart or a flush, Send sends its source. Send returns an error if there are no
// replies, at the latest when bound has passed. It does not share connections with Run, so a stalled Run
// does not delay it. The caller has called Calls.Begin.
func (n *Node) Send(ctx context.Context, b *Batch, bound time.Duration) error {
	rdb, failures := n.batches, n.failures.Load()
	if b.acks.timeout > 0 { // WAIT must be over before its connection counts as silent
		b.acks.timeout = max(min(b.acks.timeout, bound/4), time.Millisecond)
		rdb = n.acked
	}
	err := n.do(ctx, time.Now().Add(bound), NoAnswerError(bound.Round(time.Millisecond)), rdb, func(ctx context.Context) error {
		unknown, err := n.sendOnce(ctx, rdb, b, func(sc *Script) bool { return !n.hasLoaded(sc, failures) })
		if unknown {
			_, err = n.sendOnce(ctx, rdb, b, func(*Script) bool { return true })
		}
		return err
	})
	if !IsAnswered(err) {
		return err
	}
	for i := range b.calls {
		if sc := b.calls[i].script; !n.hasLoaded(sc, failures) {
			n.loaded.Store(sc, failures)
		}
		n.conns.notices.noteDemotion(b.calls[i].cmd.Err())
	}
	return nil
}

// sendOnce sends the calls of a batch that are not done in one pipeline, and returns nil if the server has answered.
// It reports whether the server did not know some of the scripts. Those calls are not done yet. If full
// reports true for a script, the first of its consecutive calls carries the source and the rest carry the digest.
func (n *Node) sendOnce(ctx context.Context, rdb *redis.Client, b *Batch, full func(*Script) bool) (again bool, err error) {
	var sentInFull *Script
	var cmds []*redis.Cmd
	pipe := rdb.Pipeline()
	for i := range b.calls {
		call := &b.calls[i]
		if call.done {
			continue
		}
		if call.asking {
			call.askingCmd = askingCmd()
			_ = pipe.Process(ctx, call.askingCmd) // only queues the command
		}
		first := call.script != sentInFull && full(call.script)
		if first {
			sentInFull = call.script
		}
		call.script.setCommand(call.args, first)
		call.cmd = redis.NewCmd(ctx, call.args...)
		_ = pipe.Process(ctx, call.cmd)
		cmds = append(cmds, call.cmd)
	}
	server := &n.conns.notices
	info, links := server.identify(ctx, pipe, sentInFull != nil)
	if b.acks.timeout > 0 {
		b.acks.add(ctx, pipe)
	}
	err = exec(ctx, pipe, cmds)
	if info != nil {
		server.identified(info, links)
	}
	for i := range b.calls {
		call := &b.calls[i]
		if call.asking && call.askingCmd.Err() != nil {
			call.cmd.SetErr(call.askingCmd.Err())
		}
		call.done = !isNoScript(call.cmd.Err())
		again = again || !call.done
	}
	return again, err
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
// connections of their own (Node.acked). Some scripts of a pipeline may write nothing, and the
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
