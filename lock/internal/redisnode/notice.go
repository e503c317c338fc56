// Events: another server process answers, or leases may be lost.

package redisnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/renewal"
)

// ReportEvents sets the function that gets the events of all nodes from now on: another server process answers, or leases may be
// lost. The Lane is the [Node.ID] of the node whose renewals it concerns. report must return at once. With it the first batch
// after a new connection, and each batch that carries the source of a script, also asks the server for its run_id, with
// INFO. A server that refuses that is not asked again.
func (cs *Calls) ReportEvents(report func(renewal.Event)) { cs.report.Store(&report) }

// Report passes an event to the function of ReportEvents, if there is one.
func (cs *Calls) Report(e renewal.Event) {
	if report := cs.report.Load(); report != nil {
		(*report)(e)
	}
}

// notices reports the events of one node.
type notices struct {
	calls *Calls // of the client, which has the function of ReportEvents
	node  int
	addr  string

	links   atomic.Int64 // connections so far; behind a new one the server may be another one
	known   atomic.Int64 // links before the latest question that was answered; changes with mu held
	refused atomic.Bool  // the server refuses INFO

	mu        sync.Mutex // guards all below
	runID     string     // of the server process, "" while it is not known
	formerID  string     // the one before
	changedAt time.Time  // when formerID was replaced
	several   bool       // there are several servers behind the address, so another run_id means nothing
}

// Tell reports an event of the renewals of a node. detail, which follows the address of n, names the process that answers now, or
// its role; it is "" if nothing is known to have changed. verify means that the server may have lost leases.
func (n *Node) Tell(node int, detail string, verify bool) { n.notices.tell(node, detail, verify) }

func (n *notices) tell(node int, detail string, verify bool) {
	if detail != "" {
		detail = n.addr + ": " + detail
		n.calls.Report(renewal.Event{Kind: renewal.EventServerChanged, Lane: node, Detail: detail})
	}
	if verify {
		n.calls.Report(renewal.Event{Kind: renewal.EventVerify, Lane: node, Detail: detail})
	}
}

// identify adds the question which process the server is to a pipeline, if there are connections
// since the latest answer, or if the pipeline carries a source, because the server may be another one. It
// takes no round trip of its own, because leases on slow links have no time for that. It returns nil if it
// has added nothing.
//
// Each batch asks until one has the answer, because the batch that meets a new server must know it
// before it reports that leases are missing there.
func (n *notices) identify(ctx context.Context, pipe redis.Pipeliner, source bool) (answer *redis.StringCmd, links int64) {
	links = n.links.Load()
	if !source && links == n.known.Load() || n.calls.report.Load() == nil || n.refused.Load() {
		return nil, links
	}
	return pipe.Info(ctx, "server"), links
}

// identified takes the results of identify after the pipeline was executed.
func (n *notices) identified(answer *redis.StringCmd, links int64) {
	info, err := answer.Result()
	if err != nil {
		var refusal redis.Error
		if errors.As(err, &refusal) {
			n.refused.Store(true)
		}
		return
	}
	_, rest, _ := strings.Cut(info, "\nrun_id:")
	id, _, _ := strings.Cut(rest, "\r") // "" if the server has none
	n.mu.Lock()
	before := n.runID
	if links < n.known.Load() { // a later question was answered before, perhaps by a newer server
		id = before
	}
	n.known.Store(max(links, n.known.Load()))
	n.runID = cmp.Or(id, before)
	changed := before != "" && id != "" && before != id
	if changed {
		now := time.Now()
		n.several = n.several || id == n.formerID && now.Sub(n.changedAt) < severalWithin
		n.formerID, n.changedAt = before, now
		changed = !n.several
	}
	n.mu.Unlock()
	if changed {
		n.tell(n.node, fmt.Sprintf("run_id %.8s is now %.8s", before, id), true)
	}
}

// severalWithin is the time within which a run_id that comes back means that a proxy has several servers. No fail-over to a
// replica and back is so fast.
const severalWithin = 10 * time.Second

// noteDemotion reports an event if the error of a script means that the server refuses writes because it is a replica.
// A server that is demoted keeps its connections, so identify does not notice.
func (n *notices) noteDemotion(err error) {
	var reply redis.Error
	if errors.As(err, &reply) && HasCode(reply, "READONLY") {
		n.tell(n.node, "refuses writes, because it is a replica now", false)
	}
}
