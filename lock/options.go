// Options and Terms, with their defaults and bounds.

package lock

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// Terms are the conditions of a lease. If the store or the kind of lock does not support one of
// them, New, or Lock, returns errors.ErrUnsupported.
type Terms struct {
	// TTL is how long the store keeps the lock without hearing from its holder: the longest time
	// that others wait after a crash. By default a lease is renewed after each third of its TTL.
	// The default is 30 s. The TTL must be MinTTL to MaxTTL and is truncated to milliseconds. With
	// refuses a TTL far below Options.TTL, for which the client's timer is too coarse.
	TTL time.Duration

	// MaxHold bounds how long a lock may be held, counted from the request that got it, or from
	// when Lock had it after waiting. Then the lock counts as lost, and renewals stop. Others get
	// the lock when the holder calls Unlock, at the latest one TTL later. The default is NoMaxHold;
	// otherwise it must be at least MinTTL. It excludes Fixed.
	MaxHold time.Duration

	// MinHold keeps the lock taken for at least so long from the arrival of the answer that granted
	// it, or the last lock of its Multi. If Unlock or Close releases it earlier, nobody can
	// acquire it for the rest, waiters keep their places, and Info.FreeIn shows the rest. After a
	// crash or a loss MinHold does not count, unless MaxHold or Fixed has ended the lease.
	//
	// MinHold may exceed the TTL and MaxHold, up to MaxTTL. The default is NoMinHold. It is for
	// Mutex, Reentrant, Batch and Multi, and stores with driver.Description.Keeps.
	MinHold time.Duration

	// StateTTL gives each key a state: up to MaxSavedLen bytes that the holder saves with
	// [Held.Save], and that the next holder gets with the lock, in [Held.State]. The store keeps
	// them for StateTTL after the last Save, also while nobody holds the lock. ForceRelease keeps
	// them; [Client.Forget] removes them. A fail-over of Redis may lose the last Save.
	//
	// The default is NoState; otherwise it must be MinTTL to MaxTTL. It is for Mutex, Reentrant and
	// Election, and stores with driver.Description.Saves.
	StateTTL time.Duration

	// Yields closes the channel of [Held.Wanted] when others wait, so that work which may pause can
	// let them go first.
	//
	// It is for Mutex, Reentrant, Election, RWMutex and a Multi of these, and stores with
	// driver.Description.Yields.
	Yields bool

	// YieldAfter, if above 0, sets Yields. The ctx of the function of a [Do] then ends, with the
	// cause [ErrWanted], once the lock has been held for so long and others wait. The function
	// brings its work to a point from which the next one goes on, and returns; if it returns the
	// plain error of its ctx, Do returns ErrWanted. For a Multi the least of its locks counts.
	YieldAfter time.Duration

	// Fixed leases are not renewed: they end after one TTL.
	Fixed bool

	// Metadata is shown by Inspect while the lock is held: any bytes, at most MaxMetadataLen. It is
	// not secret and has no other effect.
	Metadata string
}

// Options configure a Client. A nil *Options and zero fields mean the defaults.
type Options struct {
	Terms // of all locks, except those of Client.With

	// Scheduler is the timer engine of the renewals, such as a wheel.Wheel or a
	// heapqueue.Scheduler, by default a wheel of the client's own with a tick of 1/3000 of the TTL,
	// 1 to 10 ms. It must be late by less than Renewal.Margin. Share an engine only with tasks that
	// return at once: others delay renewals and the notice of a loss.
	//
	// Close it after the client, which does not: closing it ends every lock with ErrClosed.
	Scheduler schedule.Scheduler

	// Renewal decides when leases are renewed, and how long they are trusted.
	Renewal renewal.Policy

	// Hooks are called about the locks; nil means none.
	Hooks *Hooks

	// Backoff is used with a store that does not wait (driver.Description). It returns the pause
	// after the n-th try, from 0, that found the lock taken; 0 or less means no pause. A pause ends
	// early if the lease in the way ends. Backoff must be safe for concurrent use. The default is
	// random and grows from 5 to 250 ms.
	Backoff func(n int) time.Duration

	// MaxWaiters bounds the calls of Lock, of all keys, that have no lock yet. Further calls return
	// ErrTooMany at once. The default is 10,000.
	MaxWaiters int

	// WarnAfter is how long a Lock, but not a Campaign, may take before the Logger gets a warning
	// with the key and the holder, if known. It is rounded up to seconds. The default is 30 s; a
	// negative value means never.
	WarnAfter time.Duration

	// Logger receives warnings about losses, clock steps, dropped handles and clients, more than
	// 100 open clients, long waits, and locks that could not be released. Owners are never logged.
	// Nil means slog.Default() at the time of each record. No message comes more than 100 times per
	// minute. Only Close waits for the Logger, for a second at most; Stats.Renewal.DroppedLogs
	// counts the records that were dropped.
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
	if opts.Scheduler != nil && basic.IsNil(opts.Scheduler) {
		return opts, errors.New("lock: Options.Scheduler is a nil pointer")
	}
	if opts.Backoff == nil {
		opts.Backoff = defaultBackoff
	}
	opts.MaxWaiters = cmp.Or(opts.MaxWaiters, defaultMaxWaiters)
	if opts.MaxWaiters < 0 {
		return opts, fmt.Errorf("lock: Options.MaxWaiters must be above 0, got %d", opts.MaxWaiters)
	}
	opts.WarnAfter = cmp.Or(opts.WarnAfter, defaultWarnAfter)
	opts.Logger = logging.New(opts.Logger)
	return opts, nil
}

// inherit fills in zero fields from the terms of a client.
func (t Terms) inherit(from Terms) Terms {
	t.TTL = cmp.Or(t.TTL, from.TTL)
	t.Metadata = cmp.Or(t.Metadata, from.Metadata)
	t.MinHold = cmp.Or(t.MinHold, from.MinHold)
	t.StateTTL = cmp.Or(t.StateTTL, from.StateTTL)
	t.YieldAfter = cmp.Or(t.YieldAfter, from.YieldAfter)
	t.Yields = t.Yields || from.Yields
	if t.MaxHold == 0 && !t.Fixed {
		t.MaxHold, t.Fixed = from.MaxHold, from.Fixed
	}
	return t
}

// withDefaults fills in the defaults. The error names a bad field; where precedes its name.
func (t Terms) withDefaults(where string) (Terms, error) {
	t.TTL = cmp.Or(t.TTL, defaultTTL)
	if err := checkTTL(where+"TTL", t.TTL); err != nil {
		return t, err
	}
	t.TTL = t.TTL.Truncate(time.Millisecond)
	for _, d := range []*time.Duration{&t.MaxHold, &t.MinHold, &t.StateTTL} {
		if *d == NoMaxHold { // the same as NoMinHold and NoState
			*d = 0
		}
	}
	t.Yields = t.Yields || t.YieldAfter > 0
	switch {
	case t.YieldAfter < 0:
		return t, fmt.Errorf("lock: %sYieldAfter must be at least 0, got %v", where, t.YieldAfter)
	case t.StateTTL != 0 && (t.StateTTL < MinTTL || t.StateTTL > MaxTTL):
		return t, fmt.Errorf("lock: %sStateTTL must be %v to %v, got %v", where, MinTTL, MaxTTL, t.StateTTL)
	case t.MinHold < 0 || t.MinHold > MaxTTL:
		return t, fmt.Errorf("lock: %sMinHold must be 0 to %v, got %v", where, MaxTTL, t.MinHold)
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

// extra returns the attributes of a request that is made on these terms, with those that it has without them.
func (t *Terms) extra(of *driver.Attrs) *driver.Attrs {
	var e driver.Attrs
	if of != nil {
		e = *of
	}
	e.Metadata, e.Stateful, e.Yields = t.Metadata, t.StateTTL > 0, t.Yields
	return &e
}

// The bounds of what a client accepts.
const (
	MaxKeyLen = driver.MaxKeyLen // bytes in a key
	MinTTL    = driver.MinTTL
	MaxTTL    = driver.MaxTTL

	MaxMetadataLen = driver.MaxMetadataLen // bytes in the metadata of a lock
	MaxSavedLen    = driver.MaxSavedLen    // bytes in the state of a key
	MaxPermits     = driver.MaxPermits     // the limit of a Semaphore
	MaxMembers     = driver.MaxMembers     // members of a Batch
	MaxMemberBytes = driver.MaxMemberBytes // bytes in all members of a Batch together

	// NoMaxHold, NoMinHold and NoState are a MaxHold, a MinHold and a StateTTL of [Terms] that mean
	// none; see [Client.With].
	NoMaxHold time.Duration = -1
	NoMinHold time.Duration = -1
	NoState   time.Duration = -1
)

// checkTTL names what is wrong with a TTL.
func checkTTL(field string, ttl time.Duration) error {
	switch {
	case ttl < MinTTL:
		return fmt.Errorf("%w: %s must be at least %v, got %v", ErrBadTTL, field, MinTTL, ttl)
	case ttl > MaxTTL:
		return fmt.Errorf("%w: %s must be at most %v, got %v", ErrBadTTL, field, MaxTTL, ttl)
	}
	return nil
}

// exponentialBackoff returns an Options.Backoff that doubles from first to most: it is first·2ⁿ, at
// most most, of which the upper half is random. A first below 1 ms counts as 1 ms, and a most below
// first as first.
func exponentialBackoff(first, most time.Duration) func(n int) time.Duration {
	first = max(first, time.Millisecond)
	return func(n int) time.Duration {
		d := first
		for ; n > 0 && d < most; n-- {
			d += min(d, most-d) // cannot overflow
		}
		return d/2 + rand.N(d-d/2)
	}
}

// defaultBackoff is the default of Options.Backoff, and the backoff of a Multi.
var defaultBackoff = exponentialBackoff(10*time.Millisecond, 250*time.Millisecond)
