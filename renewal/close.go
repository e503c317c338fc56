// Closing a watchdog.

package renewal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/leasewheel/leasewheel/internal/logging"
)

// Close closes the watchdog. It ends every entry with ErrClosed, starts no further
// renewal, cancels the contexts of the calls of Renew, and waits until they have returned.
// It returns the leases that were held, including those whose entries had ended because the
// engine was closed. It does not wait for hooks or for functions of AfterFunc. Close may be called
// again and concurrently: every call waits, and each lease is returned by exactly one of them.
//
// If ctx ends first, Close returns the leases of the entries that it has ended, which are a
// thousand at least, and an error with the cause of ctx that states what is left to do. The
// remaining entries end in the background, and a later Close returns their leases.
func (w *Watchdog[L]) Close(ctx context.Context) ([]L, error) {
	leases, err := w.StopAll(ctx)
	if ctx == nil || w.engine == nil {
		return nil, err
	}
	select {
	case <-w.drained: // even if ctx has ended
	default:
		select {
		case <-w.drained:
		case <-ctx.Done():
			return leases, cmp.Or(err, fmt.Errorf("renewal: Close: a call of Renew has not returned: %w", context.Cause(ctx)))
		}
	}
	more, _ := w.stopSome()
	return append(leases, more...), err
}

// StopAll is like Close but does not wait for calls of Renew to return.
func (w *Watchdog[L]) StopAll(ctx context.Context) (leases []L, err error) {
	switch {
	case ctx == nil:
		return nil, errors.New("renewal: nil context")
	case w.engine == nil:
		return nil, errZeroWatchdog
	}
	for {
		ended, left := w.stopSome()
		w.cancel()
		leases = append(leases, ended...)
		switch {
		case left == 0:
			return leases, nil
		case ctx.Err() != nil:
			w.stopRest()
			return leases, fmt.Errorf("renewal: Close: %d leases not stopped yet: %w", left, context.Cause(ctx))
		}
		w.letOthersRun()
	}
}

// stopSome closes the watchdog for new entries and ends at most maxPerHold entries. It returns their leases, the leases that
// no call has returned yet, and the number of entries that are left.
func (w *Watchdog[L]) stopSome() (leases []L, left int) {
	w.mu.Lock()
	defer w.unlock()
	leases, w.unreleased = slices.Grow(w.unreleased, min(w.held, maxPerHold)), nil
	m, now := &w.monitor, w.clock.now()
	if !w.closed && m.timer != nil && m.timer.Stop() {
		m.pending--
	}
	w.closed = true
	for range maxPerHold {
		b := cmp.Or(m.unvisited.first(), m.expiries.first())
		if b == nil {
			break
		}
		if e := b.head(); e.stop(ErrClosed, now) {
			leases = append(leases, e.lease)
		}
	}
	w.signalDrained()
	return leases, w.held
}

// stopRest ends the remaining entries in the background. A later call of Close returns their leases.
func (w *Watchdog[L]) stopRest() {
	w.mu.Lock()
	defer w.unlock()
	w.stopping++
	go func() {
		leases, _ := w.StopAll(context.Background())
		w.mu.Lock()
		defer w.unlock()
		w.unreleased = append(leases, w.unreleased...)
		w.stopping--
		w.signalDrained()
	}()
}

// signalDrained ends the wait of Close if the watchdog is closed and nothing is running.
// The caller holds mu.
func (w *Watchdog[L]) signalDrained() {
	m := &w.monitor
	if !w.closed || w.held > 0 || w.stopping > 0 || w.workers > 0 || m.pending > 0 || m.running {
		return
	}
	select {
	case <-w.drained:
	default:
		close(w.drained)
	}
}

// keepUnreleased keeps the lease of an entry that ended because the engine was closed, so
// that Close returns it. The caller holds mu.
func (w *Watchdog[L]) keepUnreleased(e *Entry[L]) {
	w.unreleased = append(w.unreleased, e.lease)
	if w.engineLogged {
		return
	}
	w.engineLogged = true
	engine := fmt.Sprintf("%T", w.engine)
	w.records.add(func() {
		logging.Condition(w.log, "renewal: timer engine was closed before the watchdog: leases are no longer renewed",
			slog.String("engine", engine))
	})
}
