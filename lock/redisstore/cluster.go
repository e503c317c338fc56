package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxRedirects = 4 // of one request: a slot that moves twice, and each time by ASK first

	// tryAgain is the pause after TRYAGAIN: a slot is on its way to another node, and
	// of the keys that a script names some are not where it was sent.
	tryAgain = 20 * time.Millisecond

	// silence is how long a node may leave a request without an answer before the
	// others are asked whether it still serves.
	silence = time.Second
)

// cluster knows which master of a Redis Cluster serves which slot. It has a client
// for each of them, so that what is sent to one waits for no other: the client for
// a whole cluster answers a pipeline when the slowest node does.
type cluster struct {
	options  redis.Options // of the clients of a node, but for the address
	poolSize int
	seeds    []string
	given    func(context.Context) ([]redis.ClusterSlot, error) // nil: the nodes are asked

	slots [slotCount]atomic.Pointer[node] // nil: nobody serves it

	ctx    context.Context // ends with the store
	cancel context.CancelFunc
	work   sync.WaitGroup // the refresher

	mu      sync.Mutex // guards all below
	nodes   map[string]*node
	lastID  int
	refresh *refresh // under way or to come; nil: none, and no refresher
}

func newCluster(given *redis.ClusterOptions, poolSize int) *cluster {
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{
		options:  *derive(ctx, nodeOptions(given)),
		poolSize: poolSize,
		seeds:    given.Addrs,
		given:    given.ClusterSlots,
		nodes:    make(map[string]*node),
		ctx:      ctx,
		cancel:   cancel,
	}
	return c
}

// nodeOptions returns what the options of a cluster client say of its nodes.
func nodeOptions(o *redis.ClusterOptions) *redis.Options {
	return &redis.Options{
		Dialer: o.Dialer, OnConnect: o.OnConnect, ClientName: o.ClientName, TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
		PoolFIFO: o.PoolFIFO,
	}
}

// close ends the clients and the refresher.
func (c *cluster) close() error {
	c.mu.Lock() // against a refresh, or a node, that begins
	c.cancel()
	errs := make([]error, 0, len(c.nodes))
	for _, n := range c.nodes {
		errs = append(errs, n.close())
	}
	c.mu.Unlock()
	c.work.Wait()
	return errors.Join(errs...)
}

// master returns the master of a slot. If none is known it asks the nodes first.
func (c *cluster) master(ctx context.Context, slot uint16) (*node, error) {
	n := c.slots[slot].Load()
	if n != nil {
		return n, nil
	}
	r := c.refreshed()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if n = c.slots[slot].Load(); n != nil {
		return n, nil
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, fmt.Errorf("no node of the cluster serves slot %d", slot)
}

// node returns the node of an address.
func (c *cluster) node(addr string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known(addr)
}

// known is node for callers that hold mu.
func (c *cluster) known(addr string) *node {
	n := c.nodes[addr]
	if n == nil {
		o := c.options
		o.Addr = addr
		c.lastID++
		n = newNode(c.lastID, o, c.poolSize)
		c.nodes[addr] = n
		if c.ctx.Err() != nil {
			_ = n.close()
		}
	}
	return n
}

// serves reports whether a node served some slot when they were read last.
func (c *cluster) serves(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.gone.IsZero()
}

// run calls f with the master of a slot, and goes where that sends it.
func (c *cluster) run(ctx context.Context, slot uint16, f func(n *node, asking bool) (any, error)) (any, error) {
	n, err := c.master(ctx, slot)
	if err != nil {
		return nil, err
	}
	asking := false
	for redirects := 0; ; {
		stop := c.watch(n)
		reply, err := f(n, asking)
		stop()
		c.heard(n, err)
		to, ok := redirected(err, n.addr)
		switch {
		case ok && redirects < maxRedirects:
			redirects++
			n, asking = c.follow(to, slot), to.asking
		case redis.HasErrorPrefix(err, "TRYAGAIN") && pause(ctx, tryAgain):
			if n, err = c.master(ctx, slot); err != nil {
				return nil, err
			}
			redirects, asking = 0, false // before Redis 7 an ASK leads to it each time
		default:
			return reply, err
		}
	}
}

// follow returns the node that a redirection leads to.
func (c *cluster) follow(to redirection, slot uint16) *node {
	c.mu.Lock()
	n := c.known(to.addr)
	n.gone = time.Time{} // or a teller that has not heard of that yet would have it closed
	c.mu.Unlock()
	if !to.asking {
		c.slots[slot].Store(n)
		c.refreshed() // other slots have moved too
	}
	return n
}

// watch suspects a node that leaves a request without an answer, until it is told
// to stop.
func (c *cluster) watch(n *node) (stop func() bool) {
	return time.AfterFunc(silence, func() { c.suspect(n) }).Stop
}

// heard notes what an exchange with a node tells of it.
func (c *cluster) heard(n *node, err error) {
	switch {
	case err == nil:
		if n.suspect.Load() { // it is read always and hardly ever written
			n.suspect.Store(false)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed): // by ourselves
	case doubtful(err):
		c.suspect(n)
	}
}

func (c *cluster) suspect(n *node) {
	n.suspect.Store(true)
	c.refreshed()
}

// doubtful reports whether an error means that another node may serve instead.
func doubtful(err error) bool {
	var refusal redis.Error
	if !errors.As(err, &refusal) {
		return true // the connection failed
	}
	for _, word := range []string{"CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"} {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return false
}

// pause reports whether that much time could pass.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
