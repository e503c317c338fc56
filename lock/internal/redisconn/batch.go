package redisconn

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// batchTimeout is the longest time that a batch waits for replies, even if its context
// allows more.
const batchTimeout = 30 * time.Second

// Batch is a pipeline of scripts for one node. It does not share connections with
// [Client.Run], so a stalled Run does not delay it. The zero Batch is ready for use, and
// a Batch can be used again after Reset.
//
// A request may still be running after Send has returned an error. It uses only the memory
// of the Batch.
type Batch struct {
	client *Client
	node   *Node
	args   []any // the arguments of all scripts, in order
	calls  []batchCall
	acks   acks
	err    error // why Send stopped waiting, or nil
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

// Begin prepares the batch for a node and reserves room for args arguments.
func (b *Batch) Begin(c *Client, n *Node, args int) {
	b.client, b.node, b.err = c, n, nil
	b.args = slices.Grow(b.args, args)
}

// Node returns the node of the batch.
func (b *Batch) Node() *Node { return b.node }

// Add adds a script and returns a slice for its n arguments. The caller sets all but the
// first two: the number of keys, the keys and the other arguments. The total over all
// scripts must not exceed the room that Begin reserved. If asking is true, Send sends
// ASKING first, because the node is still importing the slot.
func (b *Batch) Add(sc *Script, n int, asking bool) []any {
	start := len(b.args)
	b.args = b.args[:start+n]
	args := b.args[start:]
	b.calls = append(b.calls, batchCall{script: sc, args: args, asking: asking})
	return args
}

// Send sends the scripts and waits for the replies. If the server does not know a script,
// after a restart or a flush, Send sends its source. Send returns an error if it stops
// waiting for the replies. The request may then still be running, so the caller must not
// use the batch again.
func (b *Batch) Send(ctx context.Context) error {
	c := b.client
	if c.cluster != nil {
		defer c.cluster.suspectLater(b.node)()
	}
	slowLinks := b.node.connector.slowLinks.Load()
	exchange := b.node.detector.begin(endOf(ctx, batchTimeout), nil)
	defer func() { b.node.detector.end(exchange, b.answered()) }()
	_, b.err = await(ctx, c.calls, batchTimeout, func(bounded context.Context) (struct{}, error) {
		ctx := exchangeContext{bounded, exchange}
		if b.send(ctx, func(sc *Script) bool { return !b.node.hasLoaded(sc, slowLinks) }) {
			b.send(ctx, func(*Script) bool { return true })
		}
		return struct{}{}, nil
	})
	if b.err != nil {
		c.noteResult(b.node, b.err)
		return b.err
	}
	answered := b.answered()
	for i := range b.calls {
		if answered {
			b.node.setLoaded(b.calls[i].script, slowLinks)
		}
		c.noteResult(b.node, b.calls[i].cmd.Err())
	}
	return nil
}

// answered reports whether the server has answered at least one script.
func (b *Batch) answered() bool {
	return b.err == nil && slices.ContainsFunc(b.calls, func(call batchCall) bool { return isAnswered(call.cmd.Err()) })
}

// endOf returns the deadline of ctx, or the end of the bound if that is earlier.
func endOf(ctx context.Context, bound time.Duration) time.Time {
	end := time.Now().Add(bound)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		return deadline
	}
	return end
}

// send sends the calls that are not done in one pipeline. It reports whether the server did not
// know some of the scripts. Those calls are not done yet. If full reports true for a script,
// the first of its consecutive calls carries the source and the rest carry the digest.
func (b *Batch) send(ctx context.Context, full func(*Script) bool) (again bool) {
	var sentInFull *Script
	pipe := b.node.rdb.Pipeline()
	if b.acks.timeout > 0 {
		pipe = b.node.acked.Pipeline()
	}
	for i := range b.calls {
		call := &b.calls[i]
		if call.done {
			continue
		}
		if call.asking {
			call.askingCmd = askingCmd(ctx)
			_ = pipe.Process(ctx, call.askingCmd) // only queues the command
		}
		if call.script != sentInFull && full(call.script) {
			sentInFull = call.script
			call.script.inFull(call.args)
		} else {
			call.script.byDigest(call.args)
		}
		call.cmd = redis.NewCmd(ctx, call.args...)
		_ = pipe.Process(ctx, call.cmd)
	}
	server := &b.node.connector.handshaker.notices
	info := server.identify(ctx, pipe)
	if b.acks.timeout > 0 {
		b.acks.add(ctx, pipe)
	}
	_, err := pipe.Exec(ctx)
	server.identified(info)
	for i := range b.calls {
		call := &b.calls[i]
		// If the server refuses the connection, go-redis returns an error from Exec
		// but does not set it on the commands.
		if err != nil && call.cmd.Err() == nil && call.cmd.Val() == nil {
			call.cmd.SetErr(err)
		}
		if call.asking && call.askingCmd.Err() != nil {
			call.cmd.SetErr(call.askingCmd.Err())
		}
		call.done = !isNoScript(call.cmd.Err())
		again = again || !call.done
	}
	return again
}

// Reply returns the reply to script i, counted from 0 in the order of Add. The error is
// unchanged from go-redis. Use [Client.Explain] before showing it to users.
func (b *Batch) Reply(i int) (any, error) { return b.calls[i].cmd.Result() }

// Reset empties the batch and keeps its memory. Call it only after Send has returned nil.
func (b *Batch) Reset() {
	clear(b.args)
	clear(b.calls)
	b.client, b.node, b.args, b.calls, b.acks = nil, nil, b.args[:0], b.calls[:0], acks{}
}
