// Package redisconn sends Lua scripts to the right node of Redis. The node is a single server, the master
// that Sentinel names, or the master of a slot of a Redis Cluster. Package redisnode sends the requests to
// each node. Neither package knows what the scripts do.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Options configure a Client; see [redisnode.Options]. Timeout bounds each call of Run, Do, Masters
// and OwnersAt.
type Options = redisnode.Options

// Client sends scripts to a server or to a cluster. Its methods are safe for concurrent
// use. They return soon after their ctx has ended, even if the server hangs. The server
// may still execute what they have sent by then.
type Client struct {
	node    *Node    // the server; nil for a cluster
	cluster *cluster // nil for one server
	timeout time.Duration
	secrets secrets
	tls     bool // the connections speak TLS

	// latest is nil until the server answers, then the refusal of the login, or "" for another answer.
	latest atomic.Pointer[string]

	// Pattern is the pattern of the keys and the channels, for texts about missing rights. It may be set before the first call.
	Pattern string

	addresses []string // see Addresses

	oneByOne atomic.Bool // see OneByOne

	*redisnode.Calls // Begin, End, Go, Wait, Cancel, Context, ReportEvents and Reason
}

// noteAnswer notes an answer that does not refuse the login.
func (c *Client) noteAnswer() {
	if c.latest.Load() != &noRefusal { // avoids a write to memory that all callers share
		c.latest.Store(&noRefusal)
	}
}

var noRefusal string

// New returns a client for the server of a *redis.Client, or for the cluster of a
// *redis.ClusterClient. It makes clients of its own from the options of rdb, and does not
// use rdb otherwise. It sends nothing.
func New(rdb redis.UniversalClient, o Options) (*Client, error) {
	if basic.IsNil(rdb) {
		return nil, errors.New("rdb is nil")
	}
	c := &Client{timeout: o.Timeout, Calls: redisnode.NewCalls()}
	switch rdb := rdb.(type) {
	case *redis.Client:
		derived := redisnode.Derive(rdb.Options())
		n, err := redisnode.New(c.Calls, 0, *derived, o)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		c.node = &Node{Node: n}
		if n.Addr() != redisnode.FailoverAddr {
			c.addresses = []string{n.Addr()}
		}
		c.secrets, c.tls = secrets{derived.Password, derived.Username}, derived.TLSConfig != nil
	case *redis.ClusterClient:
		c.cluster = newCluster(rdb.Options(), o, c.Calls)
		c.addresses = slices.Clone(c.cluster.seeds)
		c.secrets, c.tls = secrets{rdb.Options().Password, rdb.Options().Username}, rdb.Options().TLSConfig != nil
	default:
		return nil, fmt.Errorf("rdb has type %T, need *redis.Client or *redis.ClusterClient: %w", rdb, errors.ErrUnsupported)
	}
	return c, nil
}

// Close closes all connections. Call Cancel first.
func (c *Client) Close() error {
	if c.cluster != nil {
		return c.cluster.close()
	}
	return c.node.Close()
}

// IsCluster reports whether the client is for a cluster; a nil Client is not. The keys of a script must then
// have the same slot.
func (c *Client) IsCluster() bool { return c != nil && c.cluster != nil }

// Addresses returns the address of the server, or the configured addresses of the cluster.
// It returns nil for a nil Client, and for a master behind Sentinel, whose address it does not
// know. The caller must not change the slice.
func (c *Client) Addresses() []string {
	if c == nil {
		return nil
	}
	return c.addresses
}

// Serving returns the node that serves a slot, or nil if none is known. A nil Client knows none.
func (c *Client) Serving(slot uint16) *Node {
	switch {
	case c == nil:
		return nil
	case c.cluster != nil:
		return c.cluster.slots.Load()[slot]
	}
	return c.node
}

// Hold informs the node that serves a slot that a lease lasts for ttl from now; see [redisnode.Node.Hold].
func (c *Client) Hold(slot uint16, ttl time.Duration) {
	if n := c.Serving(slot); n != nil {
		n.Hold(ttl)
	}
}

// Master returns the node that serves a slot. If none is known, it asks the cluster.
func (c *Client) Master(ctx context.Context, slot uint16) (*Node, error) {
	if c.cluster == nil {
		return c.node, nil
	}
	n, err := c.cluster.master(ctx, slot)
	if err != nil {
		return nil, c.Explain(ctx, err)
	}
	return n, nil
}

// Run runs a script on the node that serves its keys, for at most Options.Timeout. The
// first two elements of args are left free for the command. The others are the number of
// keys, the keys and the arguments; the first key is a *string. Run returns soon after ctx
// or the client has ended. The server may still execute the script then. Errors have their
// driver.Verdict, and their texts do not contain secret. After a reply, nothing refers to args or to what they point
// to. After an error, go-redis may still be writing them.
func (c *Client) Run(ctx context.Context, sc *redisnode.Script, secret string, args []any) (Reply, error) {
	if c == nil {
		return Reply{}, ErrZeroStore
	}
	if err := c.Begin(ctx); err != nil {
		return Reply{}, err
	}
	defer c.End()
	until := time.Now().Add(c.timeout)
	var a redisnode.Answer
	for sc = c.Accepted(sc, 1); ; sc = sc.Literal {
		if c.cluster == nil {
			a = c.node.Run(ctx, sc, until, false, args)
		} else {
			a = c.runOnCluster(ctx, sc, until, args)
		}
		if a.Err == nil || sc.Literal == nil || !c.RefusesExpressions(a.Err) {
			break
		}
	}
	if a.Err != nil {
		err := c.Reason(ctx, c.explain(a.Err, sc, secret))
		if c.RefusesExpressions(a.Err) {
			err = textError{err.Error(), []error{err, errors.ErrUnsupported}}
		}
		if c.isSentinel(ctx, err) {
			err = textError{sentinelAdvice, []error{err}}
		}
		switch {
		case ctx.Err() != nil:
		case executedNothing(a.Err):
			err = driver.NotExecuted.Error(err)
		case a.Sent.IsZero():
			err = driver.NotSent.Error(err)
		}
		return Reply{}, err
	}
	c.noteAnswer()
	return Reply{a.Value, a.Sent}, nil
}

// runOnCluster sends a script to the node that serves its keys.
func (c *Client) runOnCluster(ctx context.Context, sc *redisnode.Script, until time.Time, args []any) (a redisnode.Answer) {
	bounded, cancel := context.WithDeadlineCause(ctx, until, driver.NoAnswerError(c.timeout))
	defer cancel()
	a.Value, a.Err = c.cluster.run(bounded, SlotOf(*args[3].(*string)), func(n *Node, asking bool) (any, error) {
		a = n.Run(bounded, sc, until, asking, args)
		return a.Value, a.Err
	})
	return a
}

// Reply is the reply to a script.
type Reply struct {
	Value any
	Sent  time.Time // an instant before the script was sent
}

// Batch is a pipeline of scripts for one node. The errors of Reply may contain secrets; see [Client.Explain].
type Batch = redisnode.Batch

// Send sends a batch to a node, as [redisnode.Node.Send] does. A cluster suspects a node that does not
// answer or does not serve.
func (c *Client) Send(ctx context.Context, n *Node, b *Batch) error {
	if err := c.Begin(ctx); err != nil {
		return err
	}
	defer c.End()
	if c.cluster != nil {
		defer c.cluster.suspectLater(n)()
	}
	err := n.Send(ctx, b)
	if err != nil {
		err = c.Explain(ctx, err)
	} else if b.Len() > 0 {
		if _, err := b.Reply(0); err == nil {
			c.noteAnswer()
		}
	}
	if c.cluster != nil {
		c.cluster.noteBatch(n, b, err)
	}
	return err
}

// Explain returns the error of a script of a Batch as Run would return it:
// without secrets, with what to do about it, and replaced if the reason is the end of the client or of ctx.
func (c *Client) Explain(ctx context.Context, err error, secrets ...string) error {
	return c.Reason(ctx, c.explain(err, nil, secrets...))
}

// MaxRedirects is the maximum number of redirections that a request follows. A slot that
// moves twice causes four, because an ASK may precede each MOVED.
const MaxRedirects = 4

// Follow returns the node to which an error of the node n redirects a call for a slot, and
// whether ASKING must precede the call there. It reports false if the error is not a
// redirection.
func (c *Client) Follow(n *Node, err error, slot uint16) (to *Node, asking, ok bool) {
	if c.cluster == nil {
		return nil, false, false
	}
	return c.cluster.follow(n, err, slot)
}

// Suspect makes a cluster read its slots again. Call it after a reply of the node that no
// script returns.
func (c *Client) Suspect(n *Node) {
	if c.cluster != nil {
		c.cluster.suspect(n)
	}
}

// RefusesSeveral reports whether the server refused a script because of one of its keys, or because
// of their number, and may execute it for each key.
func (c *Client) RefusesSeveral(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(reply.Error())
	if strings.HasPrefix(text, "crossslot") || strings.Contains(text, "same slot") || strings.Contains(text, "same server") {
		c.oneByOne.Store(true) // it is a cluster behind one address, or a proxy
		return true
	}
	return c.RefusesExpressions(err) || redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(reply.Error(), "key") // not of other keys
}

// RefusesExpressions reports whether the server, before it has executed anything, refused a script because it names keys
// otherwise than as KEYS and a number. Tair does.
func (c *Client) RefusesExpressions(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || !strings.Contains(reply.Error(), "bad lua script for redis cluster") {
		return false
	}
	c.oneByOne.Store(true)
	return true
}

// OneByOne reports whether the server has refused a script because of its keys, so that each lock needs its own.
func (c *Client) OneByOne() bool { return c.oneByOne.Load() }

// Accepted returns the script to send for sc and a number of locks. A literal one has a single lock, and the server may
// refuse others only since the caller has chosen that number.
func (c *Client) Accepted(sc *redisnode.Script, locks int) *redisnode.Script {
	if sc.Literal != nil && locks == 1 && c.oneByOne.Load() {
		return sc.Literal
	}
	return sc
}

// PerScript returns how many locks a script may have: most, or 1 if they must have one slot.
func (c *Client) PerScript(most int) int {
	if c.cluster != nil || c.oneByOne.Load() {
		return 1
	}
	return most
}

// pingsPerRefresh is after how many pings of a subscription the slots are read again.
const pingsPerRefresh = 30

// Subscribe returns a subscription without channels. The caller calls stays at each ping
// and closes the subscription when stays reports false. In a cluster the subscription is at the node n, or at any
// node if that is nil, because the nodes forward messages to each other, but not those of sharded channels. stays reports
// false when the node does not serve slots any more, because it may have left the cluster.
//
// A call must have succeeded before, so that a cluster knows its nodes.
func (c *Client) Subscribe(ctx context.Context, n *Node) (ps *redis.PubSub, stays func() bool) {
	if c.cluster == nil {
		return c.node.Subscribe(ctx), func() bool { return true }
	}
	if n == nil {
		n = c.cluster.candidates()[0]
	}
	served, pings := c.cluster.serves(n), 0
	return n.Subscribe(ctx), func() bool {
		if pings++; pings%pingsPerRefresh == 0 {
			c.cluster.requestRefresh() // there may be no request that the node could redirect
		}
		return !served || c.cluster.serves(n)
	}
}

// SlotCount is the number of hash slots of a Redis Cluster.
const SlotCount = 1 << 14

// SlotOf returns the hash slot of a key according to the Redis Cluster specification. The
// slot is the CRC-16/XMODEM of the hash tag, modulo SlotCount. The hash tag is the text
// between the first { and the next }. If it is empty or missing, the whole key counts.
func SlotOf(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % SlotCount
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= polynomial
			}
		}
		table[i] = crc
	}
	return table
}()
