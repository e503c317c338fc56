package redisconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node is one server, with go-redis clients of its own.
type Node struct {
	id            int
	addr          string
	rdb           *redis.Client  // for batches, and for commands other than scripts
	acked         *redis.Client  // for batches that replicas confirm; nil without Options.Acks
	autoPipeliner *autoPipeliner // for single scripts
	connector     *connector     // makes the connections of both
	detector      *stallDetector // of the connections of both

	// loaded maps each *Script to the value of connector.slowLinks before the latest
	// answered request with the script. It is empty while slowLinks is 0.
	loaded sync.Map

	// suspect: the node did not answer the latest request, or replied that it does not
	// serve.
	suspect atomic.Bool

	// idleSince is the time of the first refresh at which the node served no slot, or zero
	// if it serves one. It is guarded by cluster.mu.
	idleSince time.Time
}

// ID returns the number of the node, which is unique within its client. It identifies the
// lane of the node's renewals.
func (n *Node) ID() int { return n.id }

// Addr returns the address of the node.
func (n *Node) Addr() string { return n.addr }

// run runs a script on the node. It sends the digest, and the source if the server may not
// know the script.
func (n *Node) run(ctx context.Context, sc *Script, until time.Time, asking bool, args []any) answer {
	slowLinks := n.connector.slowLinks.Load()
	if n.hasLoaded(sc, slowLinks) {
		sc.byDigest(args)
	} else {
		sc.inFull(args)
	}
	a := n.autoPipeliner.do(ctx, until, asking, args)
	if isNoScript(a.err) {
		args = slices.Clone(args) // go-redis may still read the arguments of the first try
		sc.inFull(args)
		a = n.autoPipeliner.do(ctx, until, asking, args)
	}
	if isAnswered(a.err) {
		n.setLoaded(sc, slowLinks)
	}
	return a
}

// hasLoaded reports whether the server is expected to know a script. slowLinks is the
// current value of connector.slowLinks. A new connection may lead to a server that has been
// restarted. On a slow link there may be no time for a NOSCRIPT reply and a second try, so
// the first request after a new slow link carries the source.
func (n *Node) hasLoaded(sc *Script, slowLinks uint64) bool {
	if slowLinks == 0 {
		return true
	}
	loaded, ok := n.loaded.Load(sc)
	return ok && loaded == slowLinks
}

// setLoaded records that a request with a script was answered.
func (n *Node) setLoaded(sc *Script, slowLinks uint64) {
	if !n.hasLoaded(sc, slowLinks) {
		n.loaded.Store(sc, slowLinks)
	}
}

// newNode returns the node with the options o. It makes connections until ctx ends, on
// goroutines that it adds to dials.
func newNode(ctx context.Context, dials *sync.WaitGroup, cs *calls, id int, o redis.Options, own Options) *Node {
	c := newConnector(ctx, dials, o)
	c.handshaker.notices.calls, c.handshaker.notices.node, c.handshaker.notices.addr = cs, id, o.Addr
	d := newStallDetector(c)
	batches := c.clientOptions()
	batches.OnConnect = d.onConnect
	single := batches
	single.PoolSize = own.PoolSize
	n := &Node{
		id: id, addr: o.Addr, connector: c, detector: d,
		rdb:           redis.NewClient(&batches),
		autoPipeliner: newAutoPipeliner(single, d, cs),
	}
	if own.Acks {
		acked := batches
		acked.PoolSize, acked.PipelinePoolSize = own.PoolSize, -1 // pipelines use the main pool
		n.acked = redis.NewClient(&acked)
	}
	return n
}

// close closes the connections. It does not wait for those that are being made.
func (n *Node) close() error {
	n.connector.close()
	err := errors.Join(n.rdb.Close(), n.autoPipeliner.close())
	if n.acked != nil {
		err = errors.Join(err, n.acked.Close())
	}
	return err
}

// askingCmd returns the command ASKING. It makes a node that is importing a slot execute
// the next command for the slot.
func askingCmd(ctx context.Context) *redis.Cmd { return redis.NewCmd(ctx, "asking") }

func isNoScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}

// redirection is a MOVED or ASK reply of a node. The node has not executed the command.
type redirection struct {
	addr   string
	asking bool // ASK: only this command is redirected, and ASKING must precede it
}

// redirected reports whether an error of the node with address from is a redirection.
func redirected(err error, from string) (redirection, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return redirection{}, false
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}, false
	}
	addr, ok := resolveAddr(from, words[2])
	return redirection{addr: addr, asking: words[0] == "ASK"}, ok
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
