// Package redisnode sends Lua scripts to one server of Redis, and bounds each call by a context. The server is
// a single one, the master that Sentinel names, or a node of a cluster, whose redirections are errors here.
//
// A Node has lanes: clients of go-redis with one connection each, which dial when they are first used. They have the
// options of the user's client, but they repeat nothing. Options.Instrument gets them.
package redisnode

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// The lanes of a node, which dial when they are first used.
const (
	scriptLanes  = 8 // with two, 8 goroutines lock and unlock at three quarters of the rate
	renewalLanes = 2
	otherLanes   = 2

	// minRenewalTime is how long a batch of renewals has at least. A lease that is held matters more than a call that
	// fails soon.
	minRenewalTime = 3 * time.Second

	batchBuffer = 32 << 10 // bytes of a connection's buffer; holds 200 renewals
)

// Node is one server, with lanes of its own. Renewals have lanes for themselves, so that they wait for
// nothing else.
type Node struct {
	id      int
	addr    string
	timeout time.Duration
	options redis.Options // that Derive returned
	calls   *Calls
	ctx     context.Context // ends with the node
	end     context.CancelFunc
	onWatch func(down bool) // of Options; nil: none
	login   *credentials
	notices notices

	scripts   *queue        // single scripts
	renewals  *queue        // batches
	confirmed *queue        // batches that replicas confirm; nil without Options.Acks
	others    *queue        // batches that may wait, and commands
	standing  standing      // the standing connection
	subs      *redis.Client // subscriptions
	all       []*lane

	instrumented bool // the user has got the clients, and may keep commands

	failures atomic.Uint64 // requests without an answer

	// loaded maps each *Script to the value of failures before the latest answered request
	// with the script. loaded is empty while failures is 0.
	loaded sync.Map
}

// Options configure a Node. Timeout and PoolSize must be set.
type Options struct {
	// Timeout bounds each request. Run has a bound of its own, which must be Timeout after the call began,
	// because the error names Timeout.
	Timeout time.Duration

	// PoolSize bounds the lanes for single scripts, which are eight, and is the number of lanes with Acks.
	PoolSize int

	// Instrument, if it is set, gets each client of go-redis that the Node makes.
	Instrument func(*redis.Client) error

	// OnWatch, if it is set, is called about once a second while leases last on the node, and after each attempt to make
	// its standing connection again, when down is set.
	OnWatch func(down bool)

	// Acks allows calls of Batch.Acknowledge. Such batches have PoolSize lanes for themselves.
	Acks bool
}

// New returns a node with an id, which is unique in cs, and with options that Derive has returned. After an
// error of Instrument it returns a node as well, whose requests fail with that error. It sends nothing. The caller
// must call Close.
func New(cs *Calls, id int, o redis.Options, own Options) (*Node, error) {
	n := &Node{id: id, addr: o.Addr, timeout: own.Timeout, options: o, calls: cs, login: &credentials{provider: o.StreamingCredentialsProvider}, instrumented: own.Instrument != nil}
	n.ctx, n.end = context.WithCancel(cs.ctx)
	n.onWatch = own.OnWatch
	n.notices.calls, n.notices.node, n.notices.addr = cs, id, o.Addr
	n.scripts = n.newQueue(min(own.PoolSize, scriptLanes), own.Timeout, o.ReadBufferSize, false)
	n.renewals = n.newQueue(renewalLanes, max(own.Timeout, minRenewalTime), batchBuffer, false)
	n.others = n.newQueue(otherLanes, own.Timeout, batchBuffer, false)
	n.standing.queue, n.standing.base, n.standing.ping = n.newQueue(1, own.Timeout, o.ReadBufferSize, true), time.Now(), pingInterval
	if own.Acks {
		n.confirmed = n.newQueue(own.PoolSize, max(own.Timeout, minRenewalTime), batchBuffer, false)
	}
	n.subs = redis.NewClient(n.clientOptions(nil))
	cs.add(n.all)
	var errs []error
	if own.Instrument != nil {
		for _, l := range n.all {
			errs = append(errs, own.Instrument(l.rdb))
		}
		errs = append(errs, own.Instrument(n.subs))
	}
	err := errors.Join(errs...)
	if err != nil {
		n.options.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	return n, err
}

// newQueue returns a queue with lanes whose connections have buffers of the given size. If ageless is set, they are
// not closed because of their age.
func (n *Node) newQueue(lanes int, bound time.Duration, buffer int, ageless bool) *queue {
	q := &queue{node: n, bound: bound, late: driver.NoAnswerError(bound)}
	for range lanes {
		l := &lane{node: n}
		o := n.clientOptions(l)
		o.ReadBufferSize, o.WriteBufferSize = buffer, buffer
		if ageless {
			o.ConnMaxLifetime, o.ConnMaxIdleTime = -1, -1
		}
		l.rdb = redis.NewClient(o)
		q.idle, n.all = append(q.idle, l), append(n.all, l)
	}
	return q
}

// Close closes the connections. It does not wait for those that are being made. Requests of a closed node fail.
func (n *Node) Close() error {
	n.end()
	n.calls.remove(n.all)
	errs := []error{n.subs.Close()}
	for _, l := range n.all {
		l.close(redis.ErrClosed)
		errs = append(errs, l.rdb.Close())
	}
	if unsubscribe := n.login.close(); unsubscribe != nil {
		n.calls.running.Go(func() { _ = unsubscribe() }) // a function of the user
	}
	return errors.Join(errs...)
}

// ID returns the number of the node. It identifies the lane of the node's renewals.
func (n *Node) ID() int { return n.id }

// Addr returns the address of the node.
func (n *Node) Addr() string { return n.addr }

// Answer is the result of a script.
type Answer struct {
	Value any
	Sent  time.Time // an instant before the script was sent; with an Err, not zero if it may have been sent
	Err   error     // of go-redis, or the reason for the end
}

// Run runs a script. The first two elements of args are left free for the command. The others are the number
// of keys, the keys and the arguments; the first key is a *string. If asking is set, ASKING precedes
// the script. If sc is nil, args are a whole command. Run returns an error soon after ctx has ended, Calls.Cancel was
// called, or the time is until. The server may still execute the script then, if Answer.Sent is set. After a reply,
// nothing refers to args or to what they point to. After an error, go-redis may still be writing them. The caller has
// called Calls.Begin.
func (n *Node) Run(ctx context.Context, sc *Script, until time.Time, asking bool, args []any) Answer {
	q, c := n.scripts, call{script: sc, args: args, asking: asking}
	l, a := q.enter(ctx, until, c, false)
	if l == nil {
		return a
	}
	defer q.pass(l) // a hook may panic
	l.calls = append(l.calls, c)
	sent, err := q.exec(ctx, l, until, l.calls, nil)
	return l.calls[0].answer(sent, err)
}

// Command is a command that is not a script. Do sets all but Args.
type Command struct {
	Args    []any
	Reply   any
	Err     error // of go-redis; package redisconn removes the secrets
	Refused bool  // Err is an error reply of the server
}

// Do sends commands in one pipeline, for at most Options.Timeout. It returns an error, and sets nothing, if it stops
// waiting for the replies. Otherwise each command has a reply or an error. The commands must not change the
// state of the connection, because requests share it. The caller has called Calls.Begin.
func (n *Node) Do(ctx context.Context, commands ...*Command) error {
	until := time.Now().Add(n.timeout)
	if len(commands) == 1 { // it may be the release of a lock
		a := n.Run(ctx, nil, until, false, commands[0].Args)
		if !IsAnswered(a.Err) {
			return a.Err
		}
		commands[0].Reply, commands[0].Err, commands[0].Refused = a.Value, a.Err, a.Err != nil
		return nil
	}
	calls := make([]call, len(commands))
	for i, c := range commands {
		calls[i].args = c.Args
	}
	l, a := n.others.enter(ctx, until, call{}, true)
	if l == nil {
		return a.Err
	}
	defer n.others.pass(l)
	if _, err := n.others.exec(ctx, l, until, calls, nil); err != nil {
		return err
	}
	for i, c := range commands {
		c.Reply, c.Err = calls[i].cmd.Result()
		c.Refused = c.Err != nil && IsAnswered(c.Err)
	}
	return nil
}

// Slots asks which nodes of a cluster serve which slots, for at most timeout. The caller has called Calls.Begin.
func (n *Node) Slots(ctx context.Context, timeout time.Duration) ([]redis.ClusterSlot, error) {
	until := time.Now().Add(timeout)
	l, a := n.others.enter(ctx, until, call{}, true)
	if l == nil {
		return nil, a.Err
	}
	defer n.others.pass(l)
	inner, err := l.begin(ctx, until)
	if err != nil {
		return nil, err
	}
	slots, err := l.rdb.ClusterSlots(inner).Result() //nolint:staticcheck // its replacement needs Redis 7
	_, err = l.end(ctx, err, driver.NoAnswerError(timeout))
	return slots, err
}

// Subscribe returns a subscription without channels. It sends nothing.
func (n *Node) Subscribe(ctx context.Context) *redis.PubSub { return n.subs.Subscribe(ctx) }

// call is a script or a command, and its answer.
type call struct {
	script *Script // nil: args are complete
	args   []any
	asking bool // ASKING must precede the call

	ask  *redis.Cmd // if asking
	cmd  *redis.Cmd // nil: not sent
	full bool       // the source was sent
	done bool       // has an error or a reply, other than NOSCRIPT to a digest
}

// size returns approximately how many bytes the call sends.
func (c *call) size() int {
	n := 0
	for _, arg := range c.args {
		if text, ok := arg.(*string); ok {
			n += len(*text)
		}
	}
	return n
}

// answer returns the answer to a call after exec.
func (c *call) answer(sent time.Time, err error) Answer {
	if err != nil {
		return Answer{Sent: sent, Err: err}
	}
	return Answer{c.cmd.Val(), sent, c.cmd.Err()}
}

// exec sends calls on a lane, in one request. It returns nil if the server has answered one of them; each call
// then has a reply or an error. A server that does not know a script, after a restart or a flush, gets its
// source in a second try, and with each call in a third one. sent is an instant before the first try, and zero if
// nothing was sent. b adds commands of its own to each pipeline, unless it is nil.
func (q *queue) exec(ctx context.Context, l *lane, until time.Time, calls []call, b *Batch) (sent time.Time, err error) {
	n, late := q.node, q.late
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until, late = at, context.DeadlineExceeded
	}
	failures := n.failures.Load()
	inner, err := l.begin(ctx, until)
	if err != nil {
		return time.Time{}, err
	}
	for try := 1; ; try++ {
		if pipe := n.prepare(inner, l, calls, b, failures, try); pipe != nil {
			_, err = pipe.Exec(inner)
		} else {
			err = l.rdb.Process(inner, calls[0].cmd)
		}
		var unknown bool
		if unknown, err = n.settle(calls, err, failures); err != nil || !unknown {
			break
		}
	}
	if b != nil && b.info != nil {
		n.notices.identified(b.info, b.links)
	}
	if sent, err = l.end(ctx, err, late); err != nil {
		n.failures.Add(1)
		// Renewals have more time, and a dial that hangs must not hold their lanes.
		l.cold = q == n.scripts && sent.IsZero() && (ctx.Err() != nil || errors.Is(err, late))
		if errors.Is(err, q.late) || q == n.renewals && errors.Is(err, late) { // others may have had a millisecond
			q.suspect()
		}
	}
	return sent, err
}

// prepare makes the commands of the calls that are not done. It returns nil if there is one command, and no pipeline. In
// the second try, and after the latest of the failures until the server has answered a call of the script, the first call of a
// script carries its source and the rest carry its digest: the server may have been restarted, and there may be no
// time for a NOSCRIPT reply and a second try. In the third try each call carries the source, because some servers forget
// scripts at any time.
func (n *Node) prepare(ctx context.Context, l *lane, calls []call, b *Batch, failures uint64, try int) (pipe redis.Pipeliner) {
	if len(calls) > 1 || calls[0].asking || b != nil {
		pipe = l.rdb.Pipeline()
	}
	var inFull []*Script
	for i := range calls {
		c := &calls[i]
		if c.done {
			continue
		}
		if c.cmd != nil {
			c.args = slices.Clone(c.args) // a hook may keep the command
		}
		if sc := c.script; sc != nil {
			// Pointers, because go-redis dereferences them and an any that holds a pointer needs no allocation.
			c.args[0], c.args[1] = "evalsha", &sc.digest
			full := try > 1
			if !full && failures != 0 {
				loaded, ok := n.loaded.Load(sc)
				full = !ok || loaded != failures
			}
			if c.full = full && (try > 2 || !slices.Contains(inFull, sc)); c.full {
				c.args[0], c.args[1] = "eval", &sc.source
				inFull = append(inFull, sc)
			}
		}
		if pipe == nil {
			if c.cmd = &l.cmd; n.instrumented {
				c.cmd = new(redis.Cmd)
			}
			*c.cmd = *redis.NewCmd(ctx, c.args...)
			return nil
		}
		if c.asking {
			c.ask = redis.NewCmd(ctx, "asking") // a node that is importing a slot then executes the next command
			_ = pipe.Process(ctx, c.ask)        // only queues the command
		}
		c.cmd = redis.NewCmd(ctx, c.args...)
		_ = pipe.Process(ctx, c.cmd)
	}
	if b != nil {
		b.info, b.links = n.notices.identify(ctx, pipe, len(inFull) > 0 || b.dials)
		if b.acks.timeout > 0 {
			b.acks.add(ctx, pipe)
		}
	}
	return pipe
}

// settle takes the answers to the calls that were not done. failed is the error of go-redis for all of them; settle returns nil
// if the server has answered one. unknown reports that the server did not know some of the scripts; those calls are not
// done yet. failures is the value of n.failures before the request.
func (n *Node) settle(calls []call, failed error, failures uint64) (unknown bool, err error) {
	answered := failed == nil
	for i := range calls {
		c := &calls[i]
		if c.done {
			continue
		}
		if failed != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
			c.cmd.SetErr(failed) // go-redis does not, if the server refuses the connection
		}
		answered = answered || IsAnswered(c.cmd.Err())
		if c.ask != nil && c.ask.Err() != nil {
			c.cmd.SetErr(c.ask.Err())
		}
		err := c.cmd.Err()
		if c.done = err == nil || c.full || c.script == nil || !redis.HasErrorPrefix(err, "NOSCRIPT"); !c.done {
			unknown = true
			continue
		}
		if err != nil {
			n.notices.noteDemotion(err)
		}
		if failures != 0 && c.script != nil && IsAnswered(err) {
			n.loaded.Store(c.script, failures)
		}
	}
	if answered {
		return unknown, nil
	}
	return unknown, failed
}

// IsAnswered reports whether the server has replied to a command. err is the error of
// go-redis for it, and may be an error reply.
func IsAnswered(err error) bool {
	return err == nil || errors.As(err, new(redis.Error))
}

// HasCode reports whether an error reply has a code. Servers up to Redis 6 put the position in the script,
// and for some codes a dash, before the code.
func HasCode(reply redis.Error, code string) bool {
	text := reply.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, ": "+code+" ") || strings.Contains(text, ": -"+code+" ")
}

// Script is a Lua script. A Node sends its digest, and its source if the server
// replies NOSCRIPT after a restart or a flush. A server that replies NOSCRIPT has not
// executed the script, so the script does not run twice.
type Script struct {
	digest, source string

	// Literal, unless it is nil, has the same effect with the same arguments on a server that refuses expressions for
	// keys, or keys of several slots. It may be set before the first call, and serves one lock.
	Literal *Script
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
