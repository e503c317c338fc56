// The hooks, and the goroutine that calls them.

package renewal

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
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

	// Dump is called for the first loss by a failure, and then at most once a minute, before
	// Lost. It is the place to keep what only the process knows, such as a
	// runtime/trace.FlightRecorder, of which a process can have only one.
	Dump func(LostInfo)
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

const (
	maxReports = 1024 // queued calls of BatchDone
	minChunk   = 4    // reports in the first chunk of a queue
	maxChunk   = 1024 // reports in a chunk
)

// reporter calls hooks, or the logger, in order, on a goroutine that ends when nothing is
// left to report.
type reporter[L any] struct {
	hooks *Hooks
	log   *slog.Logger // may be nil

	chunk []report[L] // the rest of the chunk that run has taken; owned by its goroutine

	mu      sync.Mutex    // guards all fields below
	queue   [][]report[L] // in chunks, so that a long queue is never copied
	batches int           // calls of BatchDone in queue and chunk
	running bool          // the goroutine of run exists
	dumped  time.Time     // when Dump was called last; owned by the goroutine of run
	dropped uint64
}

// report is a loss, a call of BatchDone, or another call.
type report[L any] struct {
	lost *Entry[L]
	err  *LostError
	call func()
	kind reportKind
}

type reportKind uint8

const (
	reportLost reportKind = iota
	reportBatch
	reportCall
)

// lost queues the report of a loss, which is never dropped.
func (r *reporter[L]) lost(e *Entry[L], err *LostError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(report[L]{lost: e, err: err})
}

// call queues a call, which is never dropped.
func (r *reporter[L]) call(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(report[L]{call: call, kind: reportCall})
}

// batch queues a call of BatchDone, or drops it if too many are queued.
func (r *reporter[L]) batch(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batches >= maxReports {
		r.dropped++
		return
	}
	r.batches++
	r.add(report[L]{call: call, kind: reportBatch})
}

// add queues a report and starts the goroutine if there is none. The caller holds mu.
func (r *reporter[L]) add(next report[L]) {
	last := len(r.queue) - 1
	if last < 0 || len(r.queue[last]) == cap(r.queue[last]) {
		size := minChunk
		if last >= 0 {
			size = min(2*cap(r.queue[last]), maxChunk)
		}
		r.queue = append(r.queue, make([]report[L], 0, size))
		last++
	}
	r.queue[last] = append(r.queue[last], next)
	if !r.running {
		r.running = true
		go r.run()
	}
}

// run makes the queued calls. If a hook calls runtime.Goexit, as FailNow of a test does, a
// new goroutine continues.
func (r *reporter[L]) run() {
	finished := false
	defer func() {
		if !finished {
			go r.run()
		}
	}()
	for r.next() {
		for len(r.chunk) > 0 {
			first := r.chunk[0]
			r.chunk[0] = report[L]{} // for the garbage collector
			r.chunk = r.chunk[1:]
			r.report(first)
		}
	}
	finished = true
}

// next takes a chunk from the queue if the current one is used up. It returns false if
// nothing is left; the goroutine then ends.
func (r *reporter[L]) next() bool {
	if len(r.chunk) > 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue, r.chunk = nil, nil // for the garbage collector
		r.running = false
		return false
	}
	r.chunk = r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return true
}

func (r *reporter[L]) report(next report[L]) {
	switch next.kind {
	case reportLost:
		if r.log != nil {
			logLoss(r.log, next.lost.lease, next.err)
		}
		r.dump(next)
		if hook := r.hooks.Lost; hook != nil {
			hook(LostInfo{Lease: next.lost.lease, Err: next.err})
		}
	case reportBatch:
		r.mu.Lock()
		r.batches--
		r.mu.Unlock()
		next.call()
	case reportCall:
		next.call()
	}
}

// dump calls Dump for a loss by a failure, at most once per logging.Window.
func (r *reporter[L]) dump(next report[L]) {
	hook := r.hooks.Dump
	if hook == nil || next.err.Reason == ReasonLimitReached || !r.dumped.IsZero() && time.Since(r.dumped) < logging.Window {
		return
	}
	r.dumped = time.Now()
	hook(LostInfo{Lease: next.lost.lease, Err: next.err})
}

func (r *reporter[L]) droppedCount() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// reportLoss counts and reports a loss. The caller holds mu.
func (w *Watchdog[L]) reportLoss(e *Entry[L], err *LostError) {
	w.losses[err.Reason]++
	w.records.lost(e, err)
	if hooks := w.opts.Hooks; hooks.Lost != nil || hooks.Dump != nil {
		w.reports.lost(e, err)
	}
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
