// The outages of a store, each logged once, and the store as the watchdog sees it.

package lock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	// outageInterval is the least time between the reports of two outages.
	outageInterval = 10 * time.Second

	// outageQuiet is how long no call may have failed before an answer ends an outage.
	// Otherwise a store with one dead server would come and go with every call.
	outageQuiet = time.Second

	// abandonedAfter is how long a call that the user ends must have had no answer to
	// count as a failure of the store.
	abandonedAfter = time.Second

	maxLoggedAddresses = 8
)

// storeHealth logs once when the store becomes unavailable, and once when it answers again.
// Its methods are safe for concurrent use.
type storeHealth struct {
	logger *slog.Logger
	store  driver.Store
	life   context.Context // of the client
	down   atomic.Bool     // an outage was logged; changes with mu held

	mu     sync.Mutex // guards all below; nothing is logged while it is held
	begun  time.Time  // of the latest outage that was logged, or zero
	failed time.Time  // when the latest call failed
}

// record notes the outcome of a call of the store that began at an instant. queued means
// that the store has answered the call, although the call failed.
func (h *storeHealth) record(err error, v driver.Verdict, began time.Time, queued bool) {
	switch {
	case v == driver.Closed, v == driver.Unsupported:
	case v.IsAnswer():
		if h.down.Load() {
			h.answered()
		}
	case isEnd(err) || errors.Is(err, context.Canceled):
		if !queued && time.Since(began) >= abandonedAfter && h.life.Err() == nil {
			h.failure(errNoAnswer)
		}
	default:
		h.failure(err)
	}
}

var errNoAnswer = errors.New("no answer before the caller gave up")

// answered ends an outage.
func (h *storeHealth) answered() {
	h.mu.Lock()
	now := time.Now()
	over := h.down.Load() && now.Sub(h.failed) >= outageQuiet
	if over {
		h.down.Store(false)
	}
	took := now.Sub(h.begun)
	h.mu.Unlock()
	if over {
		h.logger.Info("lock: the store answers again", h.name(), slog.Duration("after", basic.Round(took)))
	}
}

// failure begins an outage.
func (h *storeHealth) failure(err error) {
	h.mu.Lock()
	now := time.Now()
	h.failed = now
	begins := !h.down.Load() && now.Sub(h.begun) >= outageInterval
	if begins {
		h.begun = now
		h.down.Store(true)
	}
	h.mu.Unlock()
	if begins {
		h.logger.Warn("lock: store unavailable", h.name(), slog.Any("error", basic.Unprefixed(err)))
	}
}

// noteEvent logs an event of the store that users must know.
func (h *storeHealth) noteEvent(e renewal.Event) {
	if e.Kind == renewal.EventNoMessages { // once for each store
		h.logger.Warn("lock: the store sends no messages, so waiters poll", h.name(), slog.String("error", e.Detail))
	}
}

// name returns the addresses of the store, as far as they are known.
func (h *storeHealth) name() slog.Attr {
	addresses := h.store.Describe().Addresses
	if len(addresses) == 0 {
		return slog.Attr{}
	}
	shown := slices.Clip(addresses[:min(len(addresses), maxLoggedAddresses)])
	if len(shown) < len(addresses) {
		shown = append(shown, "...")
	}
	return slog.Any("addresses", shown)
}

// renewer is the store as the watchdog sees it. It records the outcomes of renewals.
type renewer struct {
	store  driver.Store
	health *storeHealth
}

// Renew implements renewal.Renewer.
func (r renewer) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	began := time.Now()
	err := r.store.Renew(ctx, batch, out)
	r.health.record(err, driver.VerdictOf(err), began, false)
	return err
}

// Lane implements renewal.Laner.
func (r renewer) Lane(l driver.Lease) int { return r.store.Lane(l) }
