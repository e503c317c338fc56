// A watchdog and the registration of leases.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/schedule"
)

// Watchdog renews leases until they are stopped. Make one with New, and end it with
// Close. Its methods are safe for concurrent use, and hooks may call them.
type Watchdog[L any] struct {
	engine  schedule.Scheduler // nil in the zero Watchdog
	renewer Renewer[L]
	laner   Laner[L]
	opts    Options
	clock   clock
	log     *slog.Logger
	ctx     context.Context // the parent of the contexts of all renewals
	cancel  context.CancelFunc
	reports callQueue // of the hooks
	records callQueue // of log, on another goroutine, because a hook may block for ever

	queuedBatches atomic.Int32 // calls of BatchDone in reports

	batches sync.Pool // of the workers: each has a *batch
	onYield func()    // called between two parts of a pass; set by tests only

	// mu guards all fields below, and the fields of Entry and lane that name it. It is
	// held while the engine is called, whose mutexes are taken after it, and while
	// Laner.Lane is called. It is never held while Renew, a hook or the logger is called.
	// unlock releases it. While it is held, at most maxPerHold entries are visited.
	mu           sync.Mutex
	monitor      monitor[L] // knows all entries that have not ended
	held         int        // the number of these entries
	lanes        map[int]*lane[L]
	calls        int      // of Renew that are under way, over all lanes
	workers      int      // goroutines, over all lanes
	toStart      []func() // functions of AfterFunc that unlock starts
	timing       *timing  // of the last grant
	phase        float64  // of the next entry, from 0 to 0.5: see Register
	closed       bool
	unreleased   []L           // leases of ended entries that Close has not returned yet
	engineLogged bool          // a closed engine was logged
	stopping     int           // goroutines of stopRest
	drained      chan struct{} // closed once the watchdog is closed and nothing is running
	stats        Stats
	losses       [len(reasonNames)]uint64
}

// New returns a watchdog that takes its timers from the engine and renews leases through
// the renewer. The watchdog does not own the engine. The error names the argument, or the
// field of Options, that is wrong.
//
// The engine must be late by less than Options.Margin. A task of another user that blocks
// the engine delays all renewals, so leases may be lost. Their holders are
// notified in time even then. If the timer of an entry has not fired half a margin after the
// deadline, the watchdog ends the entry itself and counts it in Stats.Overdue. It warns
// Options.Logger about such an engine at most once a minute.
//
// Closing the engine ends all entries with ErrClosed. Close the watchdog first.
func New[L any](engine schedule.Scheduler, r Renewer[L], o *Options) (*Watchdog[L], error) {
	switch {
	case basic.IsNil(engine):
		return nil, errors.New("renewal: nil engine")
	case basic.IsNil(r):
		return nil, errors.New("renewal: nil Renewer")
	}
	opts, err := o.withDefaults(engine)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	laner, ok := r.(Laner[L])
	if !ok {
		laner = oneLane[L]{}
	}
	return &Watchdog[L]{
		engine:  engine,
		renewer: r,
		laner:   laner,
		opts:    opts,
		clock:   clock{base: time.Now()},
		log:     logging.New(opts.Logger),
		ctx:     ctx,
		cancel:  cancel,
		lanes:   make(map[int]*lane[L]),
		drained: make(chan struct{}),

		monitor: monitor[L]{wakeAt: asleep, tolerance: math.MaxInt64},
		phase:   firstPhase(),
	}, nil
}

var errZeroWatchdog = errors.New("renewal: the Watchdog was not made by New")

// Register puts a lease that was just granted under the watchdog. On an error the lease
// is not renewed. The error is a *LostError if the deadline of the grant has passed, and
// matches ErrClosed if the watchdog or the engine is closed, and schedule.ErrFull if
// the engine is full. Any other error names the field of the grant that is wrong.
func (w *Watchdog[L]) Register(lease L, g Grant) (*Entry[L], error) {
	if w.engine == nil {
		return nil, errZeroWatchdog
	}
	w.mu.Lock()
	defer w.unlock()
	if w.closed {
		return nil, ErrClosed
	}
	now := w.clock.now()
	if err := w.checkTerms(g); err != nil {
		return nil, err
	}
	sent := w.clock.at(g.Sent)
	if sent.mono > now.mono {
		return nil, errors.New("renewal: Grant.Sent is in the future")
	}
	if time.Since(g.Sent) >= w.opts.validity(g.TTL) { // an older Sent could overflow the deadline
		return nil, &LostError{Reason: ReasonExpired}
	}
	e := &Entry[L]{
		w:      w,
		timing: w.timingFor(g.TTL, w.clock.endOf(g.Until)),
		lease:  lease,
	}
	e.extendDeadline(sent, e.validity, now)
	if now.reached(e.deadline()) {
		return nil, &LostError{Reason: ReasonExpired}
	}

	w.monitor.tolerance = min(w.monitor.tolerance, e.margin)
	// The first renewal comes after (0.5+phase)·period, so that leases acquired together are not all
	// renewed together. The phase rises from entry to entry instead of being random. Entries made
	// together are then renewed together, so both client and server find their memory in the cache.
	// A random phase costs a cache miss per lease, and half as much CPU time again.
	at := w.opts.renewalAt(sent.mono, e.period, 0.5-w.phase)
	if w.phase += 0.5 / max(float64(w.held+1), minPhaseSteps); w.phase >= 0.5 {
		w.phase -= 0.5
	}
	if at <= now.mono {
		at = now.mono + int64(oldGrantDelay(now.until(e.deadline())))
	}
	if err := w.track(e, at, now); err != nil {
		return nil, err
	}
	return e, nil
}

// track gives an entry its timer, for a renewal at that instant, and adds it to the monitor. The caller holds mu.
func (w *Watchdog[L]) track(e *Entry[L], at int64, now instant) error {
	e.waitUntil(at)
	// The timer may fire before it is stored in the entry. Its Run then waits for mu.
	timer, err := w.engine.Schedule(e.timerDelay(now), (*task[L])(e))
	if err != nil {
		return fmt.Errorf("renewal: %w", err)
	}
	e.timer = timer
	w.held++
	e.epoch = w.monitor.epoch
	w.wakeMonitor(w.monitor.expiries.add(e), now)
	return nil
}

// checkTerms returns an error that names a field of a grant that is wrong at any time.
func (w *Watchdog[L]) checkTerms(g Grant) error {
	switch {
	case g.TTL <= 0:
		return fmt.Errorf("renewal: Grant.TTL must be positive, got %v", g.TTL)
	case g.Sent.IsZero():
		return errors.New("renewal: Grant.Sent is not set")
	case !g.Until.IsZero() && !g.Until.After(g.Sent):
		return errors.New("renewal: Grant.Until is not after Grant.Sent")
	}
	if renewed := g.Until.IsZero() || g.Until.After(g.Sent.Add(w.Validity(g.TTL))); renewed {
		if err := w.CheckTTL(g.TTL); err != nil {
			return fmt.Errorf("renewal: Grant.TTL: %w", err)
		}
	}
	return nil
}
