package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// node is one server, with a client of its own.
type node struct {
	id   int // names its lane
	addr string
	rdb  *redis.Client // for renewals, and for all that is not a script
	desk *desk         // for single scripts

	// suspect: the last that was heard of it is nothing, or that it does not serve.
	suspect atomic.Bool

	gone time.Time // since when it serves no slot. Guarded by the cluster's mu
}

// run runs a script on the node: by its digest, and in full if the server does not
// know that.
func (n *node) run(ctx context.Context, s *Store, sc *script, until time.Time, asking bool, args []any) (any, error) {
	sc.byDigest(args)
	reply, err := n.desk.do(ctx, s, until, asking, args)
	if isNoScript(err) {
		args = slices.Clone(args) // what was sent may still be read
		sc.inFull(args)
		reply, err = n.desk.do(ctx, s, until, asking, args)
	}
	return reply, err
}

func newNode(id int, o redis.Options, poolSize int) *node {
	single := o
	single.PoolSize = poolSize
	return &node{id: id, addr: o.Addr, rdb: redis.NewClient(&o), desk: newDesk(single, poolSize)}
}

func (n *node) close() error {
	return errors.Join(n.rdb.Close(), n.desk.close())
}

// askingCmd lets a node that is about to take over a slot serve the next command.
func askingCmd(ctx context.Context) *redis.Cmd { return redis.NewCmd(ctx, "asking") }

func isNoScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}

// redirection is where a node of a cluster sends somebody who asked for a key. The
// command was not executed.
type redirection struct {
	addr   string
	asking bool // for this command only, and ASKING must precede it
}

// redirected reports whether an error is a redirection, as seen from the node that
// sent it.
func redirected(err error, from string) (redirection, bool) {
	var refusal redis.Error
	if !errors.As(err, &refusal) {
		return redirection{}, false
	}
	words := strings.Fields(refusal.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}, false
	}
	addr, ok := seenFrom(from, words[2])
	return redirection{addr: addr, asking: words[0] == "ASK"}, ok
}

// seenFrom returns the address of a node as another node tells it. What that does
// not know itself is as it is for the teller; and a teller that is elsewhere must
// not lead us to our own host.
func seenFrom(teller, addr string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':') // IPv6 stands without brackets
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	tellerHost, tellerPort, err := net.SplitHostPort(teller)
	if err == nil {
		if host == "" || host == "?" || isLoopback(host) && !isLoopback(tellerHost) {
			host = tellerHost
		}
		if port == "0" { // it speaks TLS only
			port = tellerPort
		}
	}
	return net.JoinHostPort(host, port), host != ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
