// The hooks, and the goroutines that call them and the logger.

package renewal

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Hooks are functions that a watchdog calls. Each may be nil. The watchdog calls them one
// at a time, in the order of events, on a goroutine that holds no mutex and exists only
// while there is something to report. A hook may call the watchdog. A hook that blocks
// delays only later hooks. A panic of a hook is not recovered.
type Hooks struct {
	// BatchDone is called after each call of Renew. While 1,024 calls are queued,
	// further ones are dropped and counted in Stats.DroppedHooks.
	BatchDone func(BatchInfo)

	// Lost is called once for each lost lease. These calls are never dropped. A lease that
	// has reached its Grant.Until has the reason ReasonLimitReached, which is no failure.
	Lost func(LostInfo)
}

// BatchInfo describes one call of Renew.
type BatchInfo struct {
	Lane    int           // the lane of the leases
	Size    int           // leases in the batch
	Renewed int           // leases with the outcome Renewed
	Lost    int           // leases with the outcome Lost
	Unknown int           // leases without an answer
	Ended   int           // leases lost or stopped during the call; their outcomes are dropped
	Late    time.Duration // the longest lateness of a lease of the batch, as in Stats.Late
	Took    time.Duration // the duration of the call
	Err     error         // the error of Renew
}

// LostInfo describes a lost lease.
type LostInfo struct {
	Lease any // of the type of the watchdog's leases
	Err   *LostError
}

// maxReports is the most calls of BatchDone that are queued.
const maxReports = 1024

// reportLoss counts, logs and reports a loss. The caller holds mu.
func (w *Watchdog[L]) reportLoss(e *Entry[L], err *LostError) {
	w.losses[err.Reason]++
	w.records.add(func() { logLoss(w.log, e.lease, err) })
	if hook := w.opts.Hooks.Lost; hook != nil {
		w.reports.add(func() { hook(LostInfo{Lease: e.lease, Err: err}) })
	}
	if told := w.opts.tuning.Lost; told != nil {
		w.reports.add(func() { told(e.lease, err) })
	}
}

// reportBatch reports a call of Renew, or drops the report if too many are queued. The caller holds mu.
func (w *Watchdog[L]) reportBatch(info BatchInfo) {
	if w.queuedBatches.Load() >= maxReports {
		w.stats.DroppedHooks++
		return
	}
	w.queuedBatches.Add(1)
	w.reports.add(func() {
		w.queuedBatches.Add(-1)
		w.opts.Hooks.BatchDone(info)
	})
}

// callQueue is a queue of calls. They are made in order, on a goroutine that ends when none is left.
type callQueue struct {
	mu          sync.Mutex // guards all below
	first, last *queuedCall
	running     bool // the goroutine of run exists
}

type queuedCall struct {
	f    func()
	next *queuedCall
}

// add queues a call and starts the goroutine if there is none.
func (q *callQueue) add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &queuedCall{f: f}
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run makes the queued calls. If a hook calls runtime.Goexit, as FailNow of a test does, a
// new goroutine continues.
func (q *callQueue) run() {
	finished := false
	defer func() {
		if !finished {
			go q.run()
		}
	}()
	for f := q.next(); f != nil; f = q.next() {
		f()
	}
	finished = true
}

// next removes a call. If none is left it returns nil, and run must return.
func (q *callQueue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.first
	if c == nil {
		q.running = false
		return nil
	}
	if q.first = c.next; q.first == nil {
		q.last = nil
	}
	return c.f
}

// logLoss logs a loss. The end that the grant itself has set is no fault, so its level is
// Info. A lease may hold secrets, so its value is logged only if it implements
// slog.LogValuer; the attributes of a group become those of the record.
func logLoss(log *slog.Logger, lease any, err *LostError) {
	ctx, attrs := context.Background(), leaseAttrs(lease)
	if err.Reason == ReasonLimitReached {
		log.LogAttrs(ctx, slog.LevelInfo, "renewal: lease reached the end that its grant has set", attrs...)
		return
	}
	attrs = append(attrs, slog.String("reason", err.Reason.String()), slog.String("cause", err.Cause().String()))
	if seen := err.Seen(); seen != "" {
		attrs = append(attrs, slog.String("seen", seen))
	}
	if err.Err != nil {
		attrs = append(attrs, slog.Any("error", err.Err))
	}
	log.LogAttrs(ctx, slog.LevelWarn, "renewal: lease lost", attrs...)
}

func leaseAttrs(lease any) []slog.Attr {
	v, ok := lease.(slog.LogValuer)
	if !ok {
		return nil
	}
	value := slog.AnyValue(v).Resolve()
	if value.Kind() == slog.KindGroup {
		return slices.Clip(value.Group())
	}
	return []slog.Attr{{Key: "lease", Value: value}}
}
