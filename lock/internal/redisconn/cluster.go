// The nodes of a cluster, their slots, redirections and suspected nodes.

package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// suspectAfter is how long a node may leave a request unanswered before the other nodes
// are asked whether it still serves its slots.
const suspectAfter = time.Second

// cluster knows which master of a Redis Cluster serves which slot. It has a
// Node for each server, so that a slow node does not delay requests to the others. The
// cluster client of go-redis returns from a pipeline only when the slowest node answers, and
// a timeout does not make it look for a new master.
type cluster struct {
	options      redis.Options // for the client of a node, without the address
	own          Options
	calls        *redisnode.Calls
	seeds        []string
	clusterSlots func(context.Context) ([]redis.ClusterSlot, error) // of the user; nil: ask the nodes

	slots atomic.Pointer[slotTable] // replaced by a copy at each change

	lastID atomic.Int64
	again  *time.Timer // requests a refresh, if a node is suspected

	mu            sync.Mutex // guards all below, and Node.idleSince
	nodes         map[string]*Node
	refreshing    bool // the refresher runs
	polledAt      time.Time
	current, next *refresh // in progress, and requested after that; nil: none

	// To distinguish a fail-over from a slot that was moved.
	masterOf map[string]string // from the address of each replica to that of its master
	told     [2]*Node          // the masters of the latest move, before and after
}

// Node is a [redisnode.Node], and what a cluster knows of it.
type Node struct {
	*redisnode.Node

	// suspect: the node did not answer the latest request, or replied that it does not
	// serve.
	suspect atomic.Bool

	// idleSince is the time of the first refresh at which the node served no slot, or zero
	// if it serves one. It is guarded by cluster.mu.
	idleSince time.Time
}

// slotTable has the master of each slot, nil if none is known.
type slotTable [SlotCount]*Node

func newCluster(o *redis.ClusterOptions, own Options, cs *redisnode.Calls) *cluster {
	c := &cluster{
		options:      *redisnode.Derive(nodeOptions(o)),
		own:          own,
		calls:        cs,
		seeds:        o.Addrs,
		clusterSlots: o.ClusterSlots,
		nodes:        make(map[string]*Node),
	}
	c.own.OnWatch = c.poll
	c.again = time.AfterFunc(time.Hour, func() { c.requestRefresh() })
	c.again.Stop()
	c.slots.Store(new(slotTable))
	return c
}

// nodeOptions returns the options of a cluster client that apply to each node.
func nodeOptions(o *redis.ClusterOptions) *redis.Options {
	return &redis.Options{
		Dialer: o.Dialer, OnConnect: o.OnConnect, ClientName: o.ClientName, TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
		PoolFIFO: o.PoolFIFO,
	}
}

// poll has the slots read again while leases last, about once a second, because a master that others have replaced may still
// answer. It has them read as often as possible while a node with leases is down.
func (c *cluster) poll(down bool) {
	c.mu.Lock()
	now := time.Now()
	due := down || now.Sub(c.polledAt) >= pollInterval
	if due {
		c.polledAt = now
	}
	c.mu.Unlock()
	if due {
		c.requestRefresh()
	}
}

// pollInterval is a little less than the time between two calls of poll by a node.
const pollInterval = 900 * time.Millisecond

// close closes the nodes. The refresher ends with the client.
func (c *cluster) close() error {
	c.again.Stop()
	c.mu.Lock() // the client has ended, so no node is added
	nodes := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	return closeAll(nodes)
}

// closeAll closes nodes. The caller holds no mutex, because the user's connections may
// take long to close.
func closeAll(nodes []*Node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// master returns the master of a slot. If none is known, it waits for a refresh.
func (c *cluster) master(ctx context.Context, slot uint16) (*Node, error) {
	n := c.slots.Load()[slot]
	if n != nil {
		return n, nil
	}
	current, next := c.requestRefresh()
	err := c.await(ctx, cmp.Or(current, next))
	switch n = c.slots.Load()[slot]; {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case n != nil:
		return n, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("no node of the cluster serves slot %d", slot)
}

// node returns the node with an address. It makes the node if there is none, but a closed cluster does not
// keep it. If serves is set, the node counts as one that serves slots.
func (c *cluster) node(addr string, serves bool) *Node {
	var made *Node
	c.mu.Lock()
	n := c.nodes[addr]
	if n == nil {
		c.mu.Unlock() // redisnode.New calls a function of the user
		o := c.options
		o.Addr = addr
		inner, _ := redisnode.New(c.calls, int(c.lastID.Add(1)), o, c.own) // its requests return the error
		made = &Node{Node: inner}
		c.mu.Lock()
		if c.nodes[addr] == nil && c.calls.Context().Err() == nil {
			c.nodes[addr] = made
		}
		n = cmp.Or(c.nodes[addr], made)
	}
	if serves {
		n.idleSince = time.Time{}
	}
	kept := made == nil || c.nodes[addr] == made
	c.mu.Unlock()
	if !kept {
		_ = made.Close()
	}
	return n
}

// serves reports whether a node served a slot at the last refresh.
func (c *cluster) serves(n *Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.idleSince.IsZero()
}

const (
	// The pause before a call for a slot that is on two nodes is tried again doubles from minPause to
	// maxPause. A call of 3 s makes at most ten tries.
	minPause = 20 * time.Millisecond
	maxPause = 640 * time.Millisecond
)

// run calls f with the master of a slot and follows redirections. While the keys of the script are on two
// nodes, it tries again, until ctx ends.
//
// run returns any reply to a script that ASKING precedes. A renewal must not do that,
// because a node that is importing the slot may not have its single key yet. The scripts of
// run name several keys, and such a node executes them only if it has all of the keys.
func (c *cluster) run(ctx context.Context, slot uint16, f func(n *Node, asking bool) (any, error)) (any, error) {
	n, err := c.master(ctx, slot)
	if err != nil {
		return nil, err
	}
	asking, wait := false, minPause
	for redirects := 0; ; {
		stop := c.suspectLater(n)
		reply, err := f(n, asking)
		stop()
		c.noteResult(n, err)
		if redirects < MaxRedirects {
			if to, ask, ok := c.follow(n, err, slot); ok {
				redirects++
				n, asking = to, ask
				continue
			}
		}
		if !IsTryAgain(err) {
			return reply, err
		}
		select {
		case <-time.After(wait - rand.N(wait/4)):
		case <-ctx.Done():
			return nil, err
		case <-c.calls.Context().Done():
			return nil, ErrClosed
		}
		wait = min(2*wait, maxPause)
		if n, err = c.master(ctx, slot); err != nil {
			return nil, err
		}
		redirects, asking = 0, false // before Redis 7, each try gets an ASK and then a TRYAGAIN
	}
}

// follow is Client.Follow.
func (c *cluster) follow(from *Node, err error, slot uint16) (to *Node, asking, ok bool) {
	addr, asking, ok := redirected(err, from.Addr())
	if !ok {
		return nil, false, false
	}
	// The next refresh may not know yet that the node serves, and must not close it.
	to = c.node(addr, true)
	if !asking {
		c.noteMove(c.setMaster(slot, to), to)
		c.requestRefresh() // other slots have probably moved too
	}
	return to, asking, true
}

// setMaster makes a node the master of a slot, and returns the one before.
func (c *cluster) setMaster(slot uint16, n *Node) (before *Node) {
	for {
		old := c.slots.Load()
		if old[slot] == n {
			return n
		}
		table := *old
		table[slot] = n
		if c.slots.CompareAndSwap(old, &table) {
			return old[slot]
		}
	}
}

// suspectLater suspects a node after suspectAfter, unless stop is called before.
func (c *cluster) suspectLater(n *Node) (stop func() bool) {
	return time.AfterFunc(suspectAfter, func() { c.suspect(n) }).Stop
}

// noteResult suspects a node because of the error of a request, or clears the suspicion
// if there is none.
func (c *cluster) noteResult(n *Node, err error) {
	switch {
	case err == nil:
		if n.suspect.Load() { // avoids a write to memory that all callers share
			n.suspect.Store(false)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed): // by this process
	case mayHaveMoved(err):
		c.suspect(n)
	}
}

// noteBatch takes the results of a batch, or its error.
func (c *cluster) noteBatch(n *Node, b *Batch, err error) {
	if err != nil {
		c.noteResult(n, err)
		return
	}
	for i := range b.Len() {
		_, err := b.Reply(i)
		c.noteResult(n, err)
	}
}

// suspect marks a node as suspected and requests a refresh.
func (c *cluster) suspect(n *Node) {
	n.suspect.Store(true)
	c.requestRefresh()
}

// mayHaveMoved reports whether an error means that another node may serve the slots: the
// connection failed, or the node replied that it does not serve.
func mayHaveMoved(err error) bool {
	return !redisnode.IsAnswered(err) || slices.ContainsFunc([]string{"CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"}, func(code string) bool {
		return redis.HasErrorPrefix(err, code)
	})
}

// redirected reports whether an error of the node with address from is a redirection, which has not executed the command. It is
// MOVED, or ASK if asking is set: only this command is redirected then, and ASKING must precede it.
func redirected(err error, from string) (addr string, asking, ok bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return "", false, false
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return "", false, false
	}
	addr, ok = resolveAddr(from, words[2])
	return addr, words[0] == "ASK", ok
}

// resolveAddr returns the address of a node as the node source has reported it. An unknown
// host or port is that of source. A loopback address that a remote node reports is that of
// source as well, because it must not lead to the host of this process.
func resolveAddr(source, addr string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':') // IPv6 addresses come without brackets
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	sourceHost, sourcePort, err := net.SplitHostPort(source)
	if err == nil {
		if host == "" || host == "?" || isLoopback(host) && !isLoopback(sourceHost) {
			host = sourceHost
		}
		if port == "0" { // the node accepts only TLS
			port = sourcePort
		}
	}
	return net.JoinHostPort(host, port), host != ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
