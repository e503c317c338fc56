// The options, and what a store must implement.

package renewal

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// Outcome is a store's answer for one lease of a renewal.
type Outcome uint8

const (
	Unknown     Outcome = iota // no answer for this lease: it may or may not have been renewed
	Renewed                    // the holder owns the lease, which has its full TTL again
	Lost                       // the holder does not own the lease; the store does not tell why
	LostMissing                // no lease: it was deleted, evicted or released, or has expired
	LostTaken                  // another owner has the lease
)

// IsLost reports whether the store answered that the holder does not own the lease.
func (o Outcome) IsLost() bool { return o >= Lost && o <= LostTaken }

// Renewer is the interface that a store must implement. It must be safe for
// concurrent use.
type Renewer[L any] interface {
	// Renew renews the leases of batch, in one round trip if possible, and sets
	// out[i] for batch[i]. The batch has at least one lease. The slice out has the
	// length of batch and starts zeroed, so an element that Renew does not set is
	// Unknown. The error explains the Unknown outcomes and does not affect the
	// others. It is nil if there are none. A loss requires an authoritative answer:
	// a timeout or a failing server is Unknown. Finding out why a lease is lost must not delay
	// the answer.
	//
	// Renew must return soon after ctx has ended. It must not change batch and must
	// not keep either slice. It must never create a lease that has ceased to exist.
	Renew(ctx context.Context, batch []L, out []Outcome) error
}

// Laner may be implemented by a Renewer whose leases fail independently, such as
// those of several servers. Leases of one lane are renewed together. Lanes never
// wait for each other.
type Laner[L any] interface {
	// Lane returns the lane of a lease. The watchdog calls it each time the lease
	// becomes due or may have to be verified, with a mutex held. So Lane must not block and must not call the
	// watchdog.
	Lane(lease L) int
}

// Grant describes a lease to be registered.
type Grant struct {
	// TTL is how long the store keeps the lease without a renewal, counted from
	// some instant after Sent. Each renewal restores the same TTL.
	TTL time.Duration

	// Sent is the time at which the granting request was sent, or earlier. Call
	// time.Now right before sending the request.
	Sent time.Time

	// Until is the end of the lease. The deadline never moves past it, and no
	// renewal is sent that could not move the deadline. If the lease needs no renewal
	// for that reason, its TTL may be shorter than CheckTTL permits. The zero time means
	// that the lease is renewed until it is stopped.
	Until time.Time
}

// Policy decides when leases are renewed and how long they are trusted. Zero fields mean the
// defaults.
type Policy struct {
	// Fraction is the period of renewals as a fraction of the TTL. A period counts
	// from the sending of the last confirmed request. Default 1/3, range 1/10,000 to
	// 1/2. It must leave time for a second attempt, as CheckTTL describes.
	//
	// The first renewal comes after half to all of a period, so that leases
	// acquired together are not renewed together. If that instant has passed when the
	// grant is registered, the first renewal comes after a quarter of the
	// remaining time.
	Fraction float64

	// Failures is the number of unanswered renewals in a row at which a lease counts
	// as lost. Default 2, so that a single failure is tolerated. With 1, the
	// first failure is a loss. With −1, only the deadline ends the lease.
	Failures int

	// Timeout bounds one call of Renew. Default: the longest attempt timeout in the
	// batch. The attempt timeout of a lease is its period, or half of its remaining
	// time if that is too short for a second attempt. Leases whose attempt timeouts differ by
	// more than a factor of two are never in one batch. In any case the call ends at
	// the latest deadline in the batch.
	Timeout time.Duration

	// Margin is the least time from the deadline of a lease to its earliest possible
	// end on the store, clock drift included. It must exceed the lateness of
	// the timer engine: for an engine with a method Tick() time.Duration it must be
	// at least two ticks plus 2 ms. The watchdog uses at least 1/100 of the TTL.
	// Default 5 ms, or the minimum of the engine if that is more.
	//
	// Ending an entry takes up to a microsecond. If the store hangs while a million
	// leases end at the same moment, notifying all holders takes half a second,
	// and the margin must cover that.
	Margin time.Duration

	tuning *seam.Tuning // nil outside tests
}

// Options configures a Watchdog. A nil *Options and zero fields mean the defaults.
type Options struct {
	Policy

	// Hooks are called after batches and losses. Default: none.
	Hooks *Hooks

	// Logger receives warnings about losses, clock steps, and a timer engine that is
	// late or closed. A lease that reaches its Grant.Until is logged at level Info. Regular
	// service logs nothing. The log names a lease only if the lease implements
	// slog.LogValuer. Nil means slog.Default() at the time of each record.
	//
	// At most 100 losses per minute are logged. Stats counts all, and Hooks.Lost gets all. No
	// renewal waits for the Logger: a goroutine writes the records, and Stats.DroppedLogs counts
	// those that did not fit into its queue.
	Logger *slog.Logger
}

const (
	defaultFraction = 1.0 / 3
	minFraction     = 1.0 / 10_000 // below, workers would do nothing but renew
	maxFraction     = 1.0 / 2
	defaultFailures = 2
	defaultMargin   = 5 * time.Millisecond

	maxBatch = 1000 // leases in one call of Renew
	inFlight = 4    // concurrent calls of Renew per lane
)

func init() {
	seam.Tune = func(policy any, t seam.Tuning) { policy.(*Policy).tuning = &t }
}

// withDefaults returns a copy of the options with all defaults that do not depend on a
// TTL. The error names the field that is out of range.
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
	least := minMargin(engine)
	if opts.Margin == 0 {
		opts.Margin = max(defaultMargin, least)
	}
	if opts.Hooks == nil {
		opts.Hooks = new(Hooks)
	}
	var t seam.Tuning
	if opts.tuning != nil {
		t = *opts.tuning
	}
	t.MaxBatch, t.InFlight = cmp.Or(t.MaxBatch, maxBatch), cmp.Or(t.InFlight, inFlight)
	opts.tuning = &t
	return opts, opts.check(least)
}

func (p *Policy) check(minMargin time.Duration) error {
	switch {
	case !(p.Fraction >= minFraction && p.Fraction <= maxFraction): // NaN too
		return fmt.Errorf("renewal: Options.Fraction must be %v to %v, got %v", minFraction, maxFraction, p.Fraction)
	case p.Failures < -1:
		return fmt.Errorf("renewal: Options.Failures must be positive, or -1 for no limit, got %d", p.Failures)
	case p.Timeout < 0:
		return fmt.Errorf("renewal: Options.Timeout must not be negative, got %v", p.Timeout)
	case p.Margin < minMargin || p.Margin < 0:
		return fmt.Errorf("renewal: Options.Margin must be at least %v with this engine, got %v", minMargin, p.Margin)
	}
	return nil
}
