// This file is about a Node: its go-redis clients, its scripts, and the redirections that it sends.

package redisconn

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
)

// Node is one server, with go-redis clients of its own. Batches have connections of their own, so that
// a stalled call of Run does not delay them.
type Node struct {
	id      int
	addr    string
	timeout time.Duration
	calls   *calls
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

	// suspect: the node did not answer the latest request, or replied that it does not
	// serve.
	suspect atomic.Bool

	// idleSince is the time of the first refresh at which the node served no slot, or zero
	// if it serves one. It is guarded by cluster.mu.
	idleSince time.Time
}

// newNode returns the node with the options o.
func newNode(cs *calls, id int, o redis.Options, own Options) (*Node, error) {
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
	return n, errors.Join(errs...)
}

// close closes the connections. It does not wait for those that are being made.
func (n *Node) close() error {
	err := errors.Join(n.rdb.Close(), n.batches.Close())
	if n.acked != nil {
		err = errors.Join(err, n.acked.Close())
	}
	if n.login != nil {
		n.calls.running.Go(n.login.close) // a function of the user
	}
	return err
}

// ID returns the number of the node, which is unique within its client. It identifies the
// lane of the node's renewals.
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

// run runs a script on the node. It sends the digest, and the source if the server may not
// know the script.
func (n *Node) run(ctx context.Context, sc *Script, until time.Time, asking bool, args []any) answer {
	failures := n.failures.Load()
	sc.setCommand(args, !n.hasLoaded(sc, failures))
	a := n.queue.run(ctx, until, scriptCall{args, asking})
	if isNoScript(a.err) {
		args = slices.Clone(args) // go-redis may still read the arguments of the first try
		sc.setCommand(args, true)
		a = n.queue.run(ctx, until, scriptCall{args, asking})
	}
	if isAnswered(a.err) && !n.hasLoaded(sc, failures) {
		n.loaded.Store(sc, failures)
	}
	return a
}

// sendAll sends scripts in a pipeline. It returns an answer for each.
func (n *Node) sendAll(batch []*queued) []answer {
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
	answers := make([]answer, len(cmds))
	for i, cmd := range cmds {
		answers[i] = answer{cmd.Val(), cmd.asked, cmd.Err()}
		switch {
		case err != nil && !isAnswered(cmd.Err()):
			answers[i].err = err
		case asks[i] != nil && asks[i].Err() != nil:
			answers[i].err = asks[i].Err()
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

// Script is a Lua script. The client sends its digest, and its source if the server
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
