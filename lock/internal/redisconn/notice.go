package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Notice is what a Client has noticed of a node.
type Notice uint8

// The notices. Their details name the node.
const (
	Connected     Notice = iota // a connection was dialed; the handshake follows
	Ready                       // the server has answered the handshake
	Unreachable                 // a dial failed
	DeadConn                    // a connection gave no answer, but the server answers on another one
	ServerChanged               // another server process answers, or its role has changed
	Moved                       // another master serves some slots
)

// NoticeFunc gets the notices. node is Node.ID. It must return at once.
type NoticeFunc func(n Notice, node int, took time.Duration, detail string)

// OnNotice sets the function that gets the notices. It must be called before the first call. With
// it the first batch after a new connection also asks the server for its run_id, with INFO. A
// server that refuses that is not asked again.
func (c *Client) OnNotice(f NoticeFunc) { c.calls.onNotice.Store(&f) }

// notices tells of one node. The zero value tells nobody.
type notices struct {
	calls *calls // of the client, which knows whom to tell
	node  int
	addr  string

	linked  atomic.Bool // there is a new connection, so the server may be another one
	refused atomic.Bool // the server refuses INFO

	mu        sync.Mutex // guards all below
	runID     string     // of the server process, "" while it is not known
	demotedAt time.Time  // when the latest notice of noteDemotion was told
}

// on reports whether somebody is told.
func (n *notices) on() bool { return n.calls != nil && n.calls.onNotice.Load() != nil }

// tell tells of a notice. detail is added to the address.
func (n *notices) tell(what Notice, took time.Duration, detail string) {
	n.tellAs(n.node, what, took, detail)
}

// tellAs tells of a notice that concerns the renewals of the node with that number.
func (n *notices) tellAs(node int, what Notice, took time.Duration, detail string) {
	if !n.on() {
		return
	}
	text := n.addr
	if detail != "" {
		text += ": " + detail
	}
	(*n.calls.onNotice.Load())(what, node, took, text)
}

// identify adds the question which process the server is to a pipeline, if there is a new
// connection. It takes no round trip of its own, because leases on slow links have no time for
// that. It returns nil if it has added nothing.
func (n *notices) identify(ctx context.Context, pipe redis.Pipeliner) *redis.StringCmd {
	if !n.linked.Load() || !n.on() || n.refused.Load() || !n.linked.CompareAndSwap(true, false) {
		return nil
	}
	return pipe.Info(ctx, "server")
}

// identified takes the answer to identify.
func (n *notices) identified(answer *redis.StringCmd) {
	if answer == nil {
		return
	}
	info, err := answer.Result()
	if err != nil {
		var refusal redis.Error
		if errors.As(err, &refusal) {
			n.refused.Store(true)
		} else {
			n.linked.Store(true)
		}
		return
	}
	_, rest, _ := strings.Cut(info, "\nrun_id:")
	id, _, _ := strings.Cut(rest, "\r")
	if id == "" {
		return
	}
	n.mu.Lock()
	before := n.runID
	n.runID = id
	n.mu.Unlock()
	if before != "" && before != id {
		n.tell(ServerChanged, 0, fmt.Sprintf("run_id %.8s is now %.8s", before, id))
	}
}

// noteDemotion tells that the server refuses writes because it is a replica. A server that is
// demoted keeps its connections, so identify does not notice. It is told once a second, so that
// the failures of many leases do not push it out of a flight recorder.
func (n *notices) noteDemotion() {
	if !n.on() {
		return
	}
	now := time.Now()
	n.mu.Lock()
	told := now.Sub(n.demotedAt) < demotionInterval
	if !told {
		n.demotedAt = now
	}
	n.mu.Unlock()
	if !told {
		n.tell(ServerChanged, 0, "refuses writes, because it is a replica now")
	}
}

// demotionInterval is the least time between two notices of noteDemotion.
const demotionInterval = time.Second
