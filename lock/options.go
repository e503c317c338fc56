package lock

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// Terms are those of a lease.
type Terms struct {
	// TTL is how long the store keeps the lock without hearing of its holder: the
	// longest that others wait after a crash. By default it is renewed after each
	// third of it. Default 30 s; MinTTL to MaxTTL, cut to whole milliseconds. One that
	// leaves no time for a second renewal is refused too: a client whose Options.TTL is
	// much longer has an engine that is too coarse for it.
	TTL time.Duration

	// MaxHold is how long a lock may be held, counted from the request that got it,
	// or from when Lock had it after waiting: then its holder has lost it, renewals
	// or not. Others get it when it is unlocked, or after a TTL at most. Default 0:
	// no limit; at least MinTTL; refused together with Fixed.
	MaxHold time.Duration

	// Fixed leases are not renewed: they end after one TTL.
	Fixed bool

	// Metadata are shown to whoever inspects the lock while it is held: a host, a
	// process, a reason. Any bytes, at most MaxMetadataLen. They are no secret, and
	// nothing is decided by them. A lock that has any is not passed on within the
	// client (Options.LocalHandovers). Default: none.
	Metadata string
}

// Options configure a Client. A nil *Options and zero fields mean the defaults.
type Options struct {
	Terms // of all locks, unless Client.With says otherwise

	// Scheduler is the timer engine of the renewals, such as a wheel.Wheel or a
	// heapqueue.Scheduler. It is not closed with the client and must be closed
	// after it. Its lateness must be below Renewal.Margin. Default: a
	// wheel of the client's own, with a tick of 1/3000 of the TTL, 1 to 10 ms.
	Scheduler schedule.Scheduler

	// Renewal configures the watchdog: how often leases are renewed, which failures
	// are tolerated, hooks that are told of losses. In a renewal.LostInfo the lease is
	// a Lease.
	Renewal renewal.Options

	// Backoff is for a store that is no Waiter: it returns the time to wait after
	// the n-th try, from 0, that found the lock taken; zero or less means none. It
	// must be safe for concurrent use. A lock whose lease ends earlier is tried
	// then. [ConstantBackoff] and [ExponentialBackoff] make one. Default: a random
	// time that grows from 5 to 250 ms.
	Backoff func(n int) time.Duration

	// MaxWaiters bounds the calls of Lock at one time that do not have their lock
	// yet, of all keys; those beyond it return ErrTooMany at once, and nothing was
	// asked of the store. Default 10,000.
	MaxWaiters int

	// LocalHandovers is how many times in a row an Unlock may pass a lock on to the
	// next Lock of this client that waits for the same key, without asking the store;
	// then it goes to the store, and to those who wait in other processes. All who
	// have it in a row have one lease and one fencing token, so the resource cannot
	// tell them apart: they must not be able to outlive their turn. It holds for
	// locks of one holder (Mutex, Reentrant, members of a Multi) with equal terms,
	// without MaxHold and not Fixed, and while half of the TTL is left at least.
	// Calls of Lock that wait behind a holder of this client then have no place in
	// the store's queue. Default 0: none.
	LocalHandovers int

	// Logger is told of losses, of clocks that jumped, and of locks that could not be
	// released; the first two unless Renewal has a Logger of its own. Owners are never
	// logged. Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultTTL  = 30 * time.Second
	minTick     = time.Millisecond
	maxTick     = 10 * time.Millisecond
	ticksPerTTL = 3000

	defaultMaxWaiters = 10_000
)

// withDefaults fills in what does not depend on the engine, or names the wrong
// field.
func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	var err error
	if opts.Terms, err = opts.Terms.withDefaults("Options."); err != nil {
		return opts, err
	}
	if opts.Scheduler != nil && isNil(opts.Scheduler) {
		return opts, errors.New("lock: Options.Scheduler is a nil pointer")
	}
	if opts.Backoff == nil {
		opts.Backoff = defaultBackoff
	}
	if opts.MaxWaiters == 0 {
		opts.MaxWaiters = defaultMaxWaiters
	}
	if opts.MaxWaiters < 0 {
		return opts, fmt.Errorf("lock: Options.MaxWaiters must be above 0, got %d", opts.MaxWaiters)
	}
	if opts.LocalHandovers < 0 {
		return opts, fmt.Errorf("lock: Options.LocalHandovers must not be negative, got %d", opts.LocalHandovers)
	}
	if opts.Renewal.Logger == nil {
		opts.Renewal.Logger = opts.Logger
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts, nil
}

func (t Terms) withDefaults(where string) (Terms, error) {
	if t.TTL == 0 {
		t.TTL = defaultTTL
	}
	if err := checkTTL(where+"TTL", t.TTL); err != nil {
		return t, err
	}
	t.TTL = t.TTL.Truncate(time.Millisecond)
	switch {
	case t.MaxHold != 0 && t.MaxHold < MinTTL:
		return t, fmt.Errorf("lock: %sMaxHold must be at least %v, got %v", where, MinTTL, t.MaxHold)
	case len(t.Metadata) > MaxMetadataLen:
		return t, fmt.Errorf("lock: %sMetadata must have at most %d bytes, got %d", where, MaxMetadataLen, len(t.Metadata))
	case t.Fixed && t.MaxHold > 0:
		return t, errors.New("lock: " + where + "MaxHold has no meaning for a Fixed lease, which ends after one TTL")
	}
	return t, nil
}

// tick returns the tick for an engine of leases with this TTL. It is finer than
// the grid on which renewals stand, 1/300 of the TTL, so it makes few of them late;
// and it costs nothing, for the wheel sleeps from one instant of that grid to the
// next.
func tick(ttl time.Duration) time.Duration {
	return min(max(ttl/ticksPerTTL, minTick), maxTick)
}

// extra returns what a request has that is made on these terms.
func (t *Terms) extra(of *Extra) *Extra {
	if t.Metadata == "" {
		return of
	}
	var e Extra
	if of != nil {
		e = *of
	}
	e.Metadata = t.Metadata
	return &e
}
