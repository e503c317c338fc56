// This file is about a Node: its go-redis clients, and the requests that it sends.

package redisnode

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node is one server, with go-redis clients of its own. Batches have connections of their own, so that
// a stalled call of Run does not delay them.
type Node struct {
	id      int
	addr    string
	timeout time.Duration
	calls   *Calls
	conns   *conns
	login   *credentials  // nil: the user has no streaming provider
	rdb     *redis.Client // for single scripts, and for commands other than scripts
	batches *redis.Client
	acked   *redis.Client // for batches that replicas confirm; nil without Options.Acks
	queue   queue         // of single scripts

	instrumented bool // the user has got the clients

	probes     atomic.Int32  // that run for stalled requests
	reconnects atomic.Int32  // probes that run after requests without an answer
	failures   atomic.Uint64 // requests without an answer

	// loaded maps each *Script to the value of failures before the latest answered request
	// with the script. It is empty while failures is 0.
	loaded sync.Map
}

// Options configure a Node. Timeout and PoolSize must be set.
type Options struct {
	// Timeout bounds Do and TrySubscribe. Run has a bound of its own, which must be Timeout after the call began,
	// because the error names Timeout.
	Timeout time.Duration

	// PoolSize bounds the connections to a node that carry single scripts.
	PoolSize int

	// Instrument, if it is set, gets each client of go-redis that the Node makes.
	Instrument func(*redis.Client) error

	// Acks allows calls of Batch.Acknowledge. Such batches have up to PoolSize connections to
	// a node for themselves.
	Acks bool
}

// New returns a node with an id, which is unique in cs, and with options that Derive has returned. After an
// error of Instrument it returns a node as well, whose requests fail with that error. It sends nothing. The caller
// must call Close.
func New(cs *Calls, id int, o redis.Options, own Options) (*Node, error) {
	n := &Node{id: id, addr: o.Addr, timeout: own.Timeout, calls: cs}
	n.conns = &conns{options: o, calls: cs, began: time.Now()}
	n.conns.notices.calls, n.conns.notices.node, n.conns.notices.addr = cs, id, o.Addr
	if o.StreamingCredentialsProvider != nil {
		n.login = &credentials{provider: o.StreamingCredentialsProvider, changed: n.conns.refuseOld}
	}
	n.queue.node, n.queue.conns = n, own.PoolSize
	n.instrumented = own.Instrument != nil
	var errs []error
	client := func(size, buffer int) *redis.Client {
		o := n.conns.watched(n.login)
		o.PoolSize, o.ReadBufferSize, o.WriteBufferSize = size, buffer, buffer
		rdb := redis.NewClient(&o)
		if own.Instrument != nil {
			errs = append(errs, own.Instrument(rdb))
		}
		return rdb
	}
	n.rdb = client(own.PoolSize+spareConns, o.ReadBufferSize)
	n.batches = client(batchConns, batchBuffer)
	if own.Acks {
		n.acked = client(own.PoolSize, batchBuffer)
	}
	err := errors.Join(errs...)
	if err != nil {
		n.conns.options.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	return n, err
}

// Close closes the connections. It does not wait for those that are being made. Requests of a closed node fail.
func (n *Node) Close() error {
	err := errors.Join(n.rdb.Close(), n.batches.Close())
	if n.acked != nil {
		err = errors.Join(err, n.acked.Close())
	}
	if n.login != nil {
		if unsubscribe := n.login.close(); unsubscribe != nil {
			n.calls.running.Go(func() { _ = unsubscribe() }) // a function of the user
		}
	}
	return err
}

// ID returns the number of the node. It identifies the lane of the node's renewals.
func (n *Node) ID() int { return n.id }

// Addr returns the address of the node.
func (n *Node) Addr() string { return n.addr }

// scriptCall is a script with its arguments, complete with the command.
type scriptCall struct {
	args   []any
	asking bool // ASKING must precede the script
}

// size returns approximately how many bytes the call sends.
func (s *scriptCall) size() int {
	n := 0
	for _, arg := range s.args {
		if text, ok := arg.(*string); ok {
			n += len(*text)
		}
	}
	return n
}

// timedCmd is a command that knows when go-redis asked for its words for the first time, which is
// before it writes them.
type timedCmd struct {
	redis.Cmd
	asked time.Time // zero: nothing was sent
}

// Args implements redis.Cmder.
func (c *timedCmd) Args() []any {
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	return c.Cmd.Args()
}

// Run runs a script. The first two elements of args are left free for the command. The others are the number
// of keys, the keys and the arguments; the first key is a *string. If asking is set, ASKING precedes
// the script. Run sends the digest, and the source if the server may not know the script. It returns an
// error soon after ctx has ended, Calls.Cancel was called, or the time is until. The server may still execute the
// script then, if Answer.Sent is set. After a reply, nothing refers to args or to what they point to. After an
// error, go-redis may still be writing them. The caller has called Calls.Begin.
func (n *Node) Run(ctx context.Context, sc *Script, until time.Time, asking bool, args []any) Answer {
	failures := n.failures.Load()
	sc.setCommand(args, !n.hasLoaded(sc, failures))
	a := n.queue.run(ctx, until, scriptCall{args, asking})
	if isNoScript(a.Err) {
		args = slices.Clone(args) // go-redis may still read the arguments of the first try
		sc.setCommand(args, true)
		a = n.queue.run(ctx, until, scriptCall{args, asking})
	}
	if IsAnswered(a.Err) && !n.hasLoaded(sc, failures) {
		n.loaded.Store(sc, failures)
	}
	return a
}

// Answer is the result of a script.
type Answer struct {
	Value any
	Sent  time.Time // an instant before the script was sent; with an Err, not zero if it may have been sent
	Err   error     // of go-redis, or the reason for the end
}

// Do sends commands in one pipeline, for at most Options.Timeout. It returns an error, and sets nothing, if it stops
// waiting for the replies. Otherwise each command has a reply or an error. The commands must not change the
// state of the connection, because requests share it. The caller has called Calls.Begin.
func (n *Node) Do(ctx context.Context, cmds []*redis.Cmd) error {
	pipe := n.rdb.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues the command
	}
	return n.do(ctx, time.Now().Add(n.timeout), NoAnswerError(n.timeout), n.rdb, func(ctx context.Context) error { return exec(ctx, pipe, cmds) })
}

// Slots asks which nodes of a cluster serve which slots, for at most timeout. The caller has called Calls.Begin.
func (n *Node) Slots(ctx context.Context, timeout time.Duration) (slots []redis.ClusterSlot, err error) {
	err = n.do(ctx, time.Now().Add(timeout), NoAnswerError(timeout), n.batches, func(ctx context.Context) (err error) {
		slots, err = n.batches.ClusterSlots(ctx).Result() //nolint:staticcheck // its replacement needs Redis 7
		return err
	})
	return slots, err
}

// Subscribe returns a subscription without channels. It sends nothing.
func (n *Node) Subscribe(ctx context.Context) *redis.PubSub { return n.rdb.Subscribe(ctx) }

// TrySubscribe subscribes to a channel on a connection of its own, for at most Options.Timeout. The caller has
// called Calls.Begin.
func (n *Node) TrySubscribe(ctx context.Context, channel string) error {
	return n.do(ctx, time.Now().Add(n.timeout), NoAnswerError(n.timeout), n.rdb, func(ctx context.Context) error {
		ps := n.rdb.Subscribe(ctx)
		defer func() { _ = ps.Close() }()
		if err := ps.Subscribe(ctx, channel); err != nil {
			return err
		}
		until, _ := ctx.Deadline() // do sets one
		_, err := ps.ReceiveTimeout(ctx, max(time.Until(until), time.Millisecond))
		return err
	})
}

// sendAll sends scripts in a pipeline. It returns an answer for each.
func (n *Node) sendAll(batch []*queued) []Answer {
	until := batch[0].until
	cmds, asks := make([]*timedCmd, len(batch)), make([]*redis.Cmd, len(batch))
	pipe := n.rdb.Pipeline()
	for i, e := range batch {
		if e.until.After(until) {
			until = e.until
		}
		if e.asking {
			asks[i] = askingCmd()
			_ = pipe.Process(context.Background(), asks[i]) // only queues the command
		}
		cmds[i] = &timedCmd{Cmd: *redis.NewCmd(context.Background(), e.args...)}
		_ = pipe.Process(context.Background(), cmds[i])
	}
	err := n.do(context.Background(), until, NoAnswerError(n.timeout), n.rdb, func(ctx context.Context) error { return exec(ctx, pipe, cmds) })
	answers := make([]Answer, len(cmds))
	for i, cmd := range cmds {
		answers[i] = Answer{cmd.Val(), cmd.asked, cmd.Err()}
		switch {
		case err != nil && !IsAnswered(cmd.Err()):
			answers[i].Err = err
		case asks[i] != nil && asks[i].Err() != nil:
			answers[i].Err = asks[i].Err()
		}
	}
	return answers
}

// hasLoaded reports whether the server is expected to know a script. failures is the current value of
// n.failures. After a failure the server may have been restarted, and there may be no time for a
// NOSCRIPT reply and a second try, so the next request carries the source.
func (n *Node) hasLoaded(sc *Script, failures uint64) bool {
	if failures == 0 {
		return true
	}
	loaded, ok := n.loaded.Load(sc)
	return ok && loaded == failures
}

// askingCmd returns the command ASKING. It makes a node that is importing a slot execute
// the next command for the slot.
func askingCmd() *redis.Cmd { return redis.NewCmd(context.Background(), "asking") }

// isNoScript reports whether the server did not know a script. redis.HasErrorPrefix would allocate for nil.
func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// Script is a Lua script. A Node sends its digest, and its source if the server
// replies NOSCRIPT after a restart or a flush. A server that replies NOSCRIPT has not
// executed the script, so the script does not run twice.
type Script struct {
	digest, source string
}

// NewScript returns a script with the given source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{digest: hex.EncodeToString(sum[:]), source: source}
}

// Digest returns the SHA-1 of the source in hex, which EVALSHA takes.
func (s *Script) Digest() string { return s.digest }

// Source returns the Lua source of the script.
func (s *Script) Source() string { return s.source }

// setCommand writes the command, and the script in full or its digest, into the first two arguments.
// It stores a pointer, because go-redis dereferences it and an any that holds a pointer needs no
// allocation.
func (s *Script) setCommand(args []any, full bool) {
	if full {
		args[0], args[1] = "eval", &s.source
	} else {
		args[0], args[1] = "evalsha", &s.digest
	}
}
