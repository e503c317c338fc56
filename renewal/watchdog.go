package renewal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Watchdog renews leases until they are stopped. Make it with New and end it with
// Close: the zero Watchdog takes no lease. Its methods are safe for concurrent use,
// from hooks too.
type Watchdog[L any] struct {
	engine  schedule.Scheduler // nil in the zero Watchdog
	renewer Renewer[L]
	laner   Laner[L] // nil: one lane
	opts    Options
	clock   clock
	ctx     context.Context // of all renewals
	cancel  context.CancelFunc
	reports reporter

	// mu guards all below, and what Entry and lane say it does. It is held while
	// the engine is called, whose locks come after it, and Laner.Lane, which does
	// nothing but name a lane; never while Renew, a hook or a logger is.
	mu      sync.Mutex
	newest  *Entry[L] // all entries that have not ended
	held    int
	lanes   map[int]*lane[L]
	workers int
	spare   []*batch[L]
	terms   *terms  // of the last grant
	spread  float64 // the part of a period, below 1/2, that the next first renewal comes later than after half of it
	closed  bool
	quiet   chan struct{} // closed when closed and no worker is left
	stats   Stats
	lost    [reasons]uint64

	// What is known of the clocks; see compare.
	comparison  schedule.Timer
	watching    bool          // comparison is armed
	compared    int64         // when they were compared last, on the monotonic clock
	least, most int64         // leads of the wall clock since that last mattered
	tolerance   time.Duration // the smallest margin seen: what they may do unnoticed
}

// New returns a watchdog that takes its timers from engine, which it does not
// own, and renews through r. The error names the argument or the field of Options
// that is wrong.
func New[L any](engine schedule.Scheduler, r Renewer[L], o *Options) (*Watchdog[L], error) {
	switch {
	case isNil(engine):
		return nil, errors.New("renewal: the engine is nil")
	case isNil(r):
		return nil, errors.New("renewal: the renewer is nil")
	}
	opts, err := o.withDefaults(engine)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	laner, _ := r.(Laner[L])
	return &Watchdog[L]{
		engine:    engine,
		renewer:   r,
		laner:     laner,
		opts:      opts,
		clock:     clock{base: time.Now()},
		ctx:       ctx,
		cancel:    cancel,
		lanes:     make(map[int]*lane[L]),
		quiet:     make(chan struct{}),
		tolerance: math.MaxInt64,
		spread:    rand.Float64() / 2, // many processes may start at the same time
	}, nil
}

var errZeroWatchdog = errors.New("renewal: the Watchdog was not made by New")

// isNil tells whether an interface holds nothing, or a nil pointer: what is left of a
// constructor whose error nobody looked at.
func isNil(x any) bool {
	v := reflect.ValueOf(x)
	return x == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// Register puts a lease that was just granted under the watchdog. The error names
// the field of the grant that is wrong, is a *LostError if the deadline of the
// grant has passed already, ErrClosed, or that of an engine that is full or
// closed, or that the watchdog was not made by New; then the lease is not renewed.
func (w *Watchdog[L]) Register(lease L, g Grant) (*Entry[L], error) {
	if w.engine == nil {
		return nil, errZeroWatchdog
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	now := w.clock.now()
	if err := w.check(g, now); err != nil {
		return nil, err
	}
	sent := w.clock.at(g.Sent)
	e := &Entry[L]{
		dog:   w,
		terms: w.termsOf(g),
		lease: lease,
	}
	e.confirmed(sent, now)
	if now.reached(e.deadline()) {
		return nil, &LostError{Reason: Expired}
	}

	w.tolerance = min(w.tolerance, w.opts.margin(g.TTL))
	if err := w.watchClocks(now); err != nil {
		return nil, fmt.Errorf("renewal: %w", err)
	}
	if err := w.track(e); err != nil {
		return nil, err
	}
	at := w.firstRenewal(sent.mono, e.period)
	if at <= now.mono {
		// The grant is old, as that of a lock is that was handed over: less than a TTL
		// is left. Many such are held for a moment only, so they are not renewed at
		// once; and there is time for a second try.
		at = now.mono + int64(now.until(e.deadline())/4)
	}
	e.wait(at, now)
	if e.state == over {
		return nil, e.end.err
	}
	return e, nil
}

// track gives an entry its timer and its place among the others. The caller holds mu.
func (w *Watchdog[L]) track(e *Entry[L]) error {
	// The timer may fire before it is stored in the entry; its Run waits for mu.
	timer, err := w.engine.Schedule(math.MaxInt64, (*task[L])(e))
	if err != nil {
		return fmt.Errorf("renewal: %w", err)
	}
	e.timer = timer
	w.link(e)
	return nil
}

// termsOf returns the terms of a grant, most often those of the grant before. The
// caller holds mu.
func (w *Watchdog[L]) termsOf(g Grant) *terms {
	t := terms{latest: w.clock.end(g.Until), life: w.opts.life(g.TTL), period: w.opts.period(g.TTL)}
	if w.terms == nil || *w.terms != t {
		fresh := t // so that t stays off the heap
		w.terms = &fresh
	}
	return w.terms
}

// Life returns how long a grant of the given TTL is trusted, counted from Sent. It
// is not above zero for a TTL that is too short.
func (w *Watchdog[L]) Life(ttl time.Duration) time.Duration {
	return w.opts.life(ttl)
}

// CheckTTL returns an error for a TTL that leaves the watchdog too little time: for
// a second renewal after one that failed, if a failure is to be tolerated, or
// else for a first.
func (w *Watchdog[L]) CheckTTL(ttl time.Duration) error {
	life, margin := w.opts.life(ttl), w.opts.margin(ttl)
	need := w.opts.period(ttl)
	if w.opts.Failures != 1 {
		need *= 2
	}
	if ttl <= 0 || need <= 0 || life <= 0 || life-need < margin { // which cannot overflow
		return fmt.Errorf("a TTL of %v is too short: with a margin of %v it can be relied on for %v, and to renew it takes %v and the margin",
			ttl, margin, max(life, 0), need)
	}
	return nil
}

// check names what is wrong with a grant.
func (w *Watchdog[L]) check(g Grant, now instant) error {
	switch {
	case g.TTL <= 0:
		return fmt.Errorf("renewal: Grant.TTL must be above zero, got %v", g.TTL)
	case g.Sent.IsZero():
		return errors.New("renewal: Grant.Sent is not set")
	case w.clock.at(g.Sent).mono > now.mono:
		return errors.New("renewal: Grant.Sent is in the future")
	case !g.Until.IsZero() && !g.Until.After(g.Sent):
		return errors.New("renewal: Grant.Until is not after Grant.Sent")
	}
	if renewed := g.Until.IsZero() || g.Until.After(g.Sent.Add(w.Life(g.TTL))); renewed {
		if err := w.CheckTTL(g.TTL); err != nil {
			return fmt.Errorf("renewal: Grant.TTL: %w", err)
		}
	}
	if time.Since(g.Sent) >= w.opts.life(g.TTL) { // before reckoning with an instant of any age
		return &LostError{Reason: Expired}
	}
	return nil
}

// firstRenewal returns the instant for the first renewal of a lease granted by a
// request sent at the given one: after half to all of a period, so that leases
// acquired together part ways. They keep their order: what was made together is
// renewed together, here and on the server, and lies together in memory. At random it
// would be a cache miss each, and the renewals of many leases half as dear again.
func (w *Watchdog[L]) firstRenewal(sent int64, period time.Duration) int64 {
	part := w.spread
	w.spread += 0.5 / max(float64(w.held), leastSpread)
	if w.spread >= 0.5 {
		w.spread -= 0.5
	}
	return w.renewalAt(sent, period, 0.5-part)
}

// leastSpread is over how many leases at least the first renewals are spread.
const leastSpread = 64

// nextRenewal returns the instant for the renewal after one sent at the given one.
func (w *Watchdog[L]) nextRenewal(sent int64, period time.Duration) int64 {
	if w.opts.Jitter == 0 {
		return w.renewalAt(sent, period, 0)
	}
	return w.renewalAt(sent, period, rand.Float64()*w.opts.Jitter)
}

// renewalAt returns the instant for a renewal that leaves a period after sent at the
// latest: earlier by a part of the period, by the time to gather, and by what it takes
// to the grid.
func (w *Watchdog[L]) renewalAt(sent int64, period time.Duration, earlier float64) int64 {
	at := sent + int64(period) - int64(gatherOf(period)) - int64(earlier*float64(period))
	grid := int64(w.opts.Align)
	if grid == 0 {
		grid = int64(period) / alignPart
	}
	grid = min(grid, int64(period)/2) // a coarser one would make every renewal due at once
	if grid <= 0 {
		return at
	}
	return at - at%grid
}

// Close ends the watchdog: every entry ends with ErrClosed, no renewal begins any
// more, the ctx of those under way is cancelled, and the leases that were held
// are returned. It then waits for calls of Renew to return, at most until ctx
// ends, whose cause is the error. It does not wait for hooks and functions of
// AfterFunc. A second Close has nothing to return and waits likewise. A nil ctx is
// an error, and then nothing is closed.
func (w *Watchdog[L]) Close(ctx context.Context) ([]L, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("renewal: Close needs a context")
	case w.engine == nil:
		return nil, errZeroWatchdog
	}
	var leases []L
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.cancel()
		w.comparison.Stop()
		now := w.clock.now()
		w.each(func(e *Entry[L]) {
			if e.stop(ErrClosed, now) {
				leases = append(leases, e.lease)
			}
		})
		if w.workers == 0 {
			close(w.quiet)
		}
	}
	w.mu.Unlock()
	select {
	case <-w.quiet: // also if ctx has ended
		return leases, nil
	default:
	}
	select {
	case <-w.quiet:
		return leases, nil
	case <-ctx.Done():
		return leases, fmt.Errorf("renewal: Close: a renewal is still under way: %w", context.Cause(ctx))
	}
}

// link and unlink keep the list of all entries. The caller holds mu.
func (w *Watchdog[L]) link(e *Entry[L]) {
	e.older = w.newest
	if w.newest != nil {
		w.newest.newer = e
	}
	w.newest = e
	w.held++
}

func (w *Watchdog[L]) unlink(e *Entry[L]) {
	if e.newer == nil {
		w.newest = e.older
	} else {
		e.newer.older = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	}
	e.older, e.newer = nil, nil
	w.held--
}
