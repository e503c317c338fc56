package renewal

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Outcome is what a store knows of one lease after a renewal.
type Outcome uint8

const (
	Unknown Outcome = iota // no answer for this lease: it may or may not have been renewed
	Renewed                // the lease is the holder's and has its full TTL again
	Lost                   // the lease is not the holder's, by the store's own word
)

// Renewer is all that a store must offer. It must be safe for concurrent use.
type Renewer[L any] interface {
	// Renew renews the leases of batch, at least one, in one round trip if it
	// can, and sets out[i] for batch[i]. out has the length of batch and arrives
	// zeroed: an entry that is left alone is Unknown. The error explains the
	// Unknown ones and takes nothing from the rest; it is nil if there are none. Lost is
	// only for an authoritative answer; a timeout or a failing server is Unknown.
	//
	// Renew must return soon after ctx has ended, must not change batch and must keep
	// neither slice. It must never create a lease that has ceased to be.
	Renew(ctx context.Context, batch []L, out []Outcome) error
}

// Laner may be implemented by a Renewer whose leases do not all share one fate,
// such as those of several servers. Leases of one lane are renewed together;
// lanes never wait for each other.
type Laner[L any] interface {
	// Lane names the lane of a lease. It does no IO. It is called when the lease
	// becomes due, each time anew, with a lock of the watchdog held, and so must
	// not call the watchdog.
	Lane(lease L) int
}

// Grant is what is known of a lease when it is registered.
type Grant struct {
	// TTL is how long the store keeps the lease without a renewal, counted from
	// some instant after Sent. Each renewal gives it the same TTL again.
	TTL time.Duration

	// Sent is an instant before the request went out that the store granted:
	// time.Now() at that moment.
	Sent time.Time

	// Until ends the lease: its deadline never moves past it, and no renewal is
	// sent when none can move it; the TTL of a lease that is never renewed for that
	// reason needs no time for renewals. Zero means that the lease is renewed until
	// it is stopped.
	Until time.Time
}

// Options configure a Watchdog. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Fraction of the TTL after which a lease is renewed, counted from the
	// instant at which the last confirmed request was sent. Default 1/3; at least
	// 1/10,000, since a lease that is renewed more often is no safer, at most 1/2,
	// and low enough that a second try has its time: see CheckTTL.
	// The first renewal comes after half to all of that period, so that leases
	// acquired together are not all renewed together; that of a grant which is older
	// by then comes when a quarter of what is left of it has passed.
	Fraction float64

	// Jitter makes renewals earlier by a random part of the period, at most this
	// one. Default 0, none; below 1.
	Jitter float64

	// Failures is how many renewals in a row may go without an answer before the
	// holder is told: at the n-th it is. Default 2, so that a single failure is
	// tolerated; 1 tells at the first; −1 waits for the deadline.
	Failures int

	// MaxBatch bounds the leases of one call of Renew. Default 1,000; 1 to 10,000.
	MaxBatch int

	// InFlight bounds the calls of Renew at one time per lane. Default 4; 1 to
	// 1,000.
	InFlight int

	// Align rounds renewal instants, never deadlines, down to multiples of it, so
	// that an exact engine too has many leases due at once. Default 1/100 of the
	// period of each lease, never more than half of it; negative: none.
	Align time.Duration

	// Timeout bounds one call of Renew. Default: the longest period in the batch,
	// where a lease with less than that left counts by half of what it has left;
	// leases for which that differs by a factor of two are in different batches. The
	// call ends at the latest deadline in the batch in any case.
	Timeout time.Duration

	// Margin is how long at least the deadline of a lease stands before it could
	// end on the store, clock drift allowed for. It must exceed the lateness of
	// the timer engine: for one with a method Tick() time.Duration it is at least
	// two ticks and 2 ms. A margin of 1/100 of the TTL is kept in any case. Default
	// 5 ms, or what the engine needs if that is more.
	Margin time.Duration

	// Hooks are told of batches and losses. Default: none.
	Hooks *Hooks

	// Logger is told of losses and of clocks that jumped, of nothing that happens
	// in regular service. A lease is logged only if it is a slog.LogValuer.
	// Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultFraction = 1.0 / 3
	minFraction     = 1.0 / 10_000 // below, workers would do nothing but renew
	maxFraction     = 1.0 / 2
	defaultFailures = 2
	defaultMaxBatch = 1000
	defaultInFlight = 4
	maxMaxBatch     = 10_000
	maxInFlight     = 1_000
	defaultMargin   = 5 * time.Millisecond
	marginTicks     = 2                    // of the engine: one of lateness by design, one to spare
	marginBeside    = 2 * time.Millisecond // for the scheduler of the machine
	alignPart       = 100                  // of a period is the default Align
	driftPart       = 100                  // of a TTL is what clocks may drift apart, and the least margin
)

// withDefaults returns the options with every default filled in that does not
// depend on a TTL, or an error that names the wrong field.
func (o *Options) withDefaults(engine schedule.Scheduler) (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	if opts.Fraction == 0 {
		opts.Fraction = defaultFraction
	}
	if opts.Failures == 0 {
		opts.Failures = defaultFailures
	}
	if opts.MaxBatch == 0 {
		opts.MaxBatch = defaultMaxBatch
	}
	if opts.InFlight == 0 {
		opts.InFlight = defaultInFlight
	}
	least := leastMargin(engine)
	if opts.Margin == 0 {
		opts.Margin = max(defaultMargin, least)
	}
	if opts.Hooks == nil {
		opts.Hooks = new(Hooks)
	}
	return opts, opts.check(least)
}

// leastMargin returns what an engine needs that has a tick.
func leastMargin(engine schedule.Scheduler) time.Duration {
	ticking, ok := engine.(interface{ Tick() time.Duration })
	if !ok {
		return 0
	}
	return marginTicks*ticking.Tick() + marginBeside
}

func (o *Options) check(leastMargin time.Duration) error {
	switch {
	case !(o.Fraction >= minFraction && o.Fraction <= maxFraction): // NaN too
		return fmt.Errorf("renewal: Options.Fraction must be %v to %v, got %v", minFraction, maxFraction, o.Fraction)
	case !(o.Jitter >= 0 && o.Jitter < 1):
		return fmt.Errorf("renewal: Options.Jitter must be 0 to below 1, got %v", o.Jitter)
	case o.Failures < -1:
		return fmt.Errorf("renewal: Options.Failures must be above 0, or -1 for no limit, got %d", o.Failures)
	case o.MaxBatch < 1 || o.MaxBatch > maxMaxBatch:
		return fmt.Errorf("renewal: Options.MaxBatch must be 1 to %d, got %d", maxMaxBatch, o.MaxBatch)
	case o.InFlight < 1 || o.InFlight > maxInFlight:
		return fmt.Errorf("renewal: Options.InFlight must be 1 to %d, got %d", maxInFlight, o.InFlight)
	case o.Timeout < 0:
		return fmt.Errorf("renewal: Options.Timeout must not be negative, got %v", o.Timeout)
	case o.Margin < leastMargin || o.Margin < 0:
		return fmt.Errorf("renewal: Options.Margin must be at least %v with this engine, got %v", leastMargin, o.Margin)
	}
	return nil
}

// margin returns the margin for a TTL.
func (o *Options) margin(ttl time.Duration) time.Duration {
	return max(ttl/driftPart, o.Margin)
}

// life returns how long a lease may be assumed held after the instant at which
// its grant was sent.
func (o *Options) life(ttl time.Duration) time.Duration {
	return ttl - ttl/driftPart - o.margin(ttl)
}

// period returns the time from one renewal of a lease to the next.
func (o *Options) period(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl) * o.Fraction)
}
