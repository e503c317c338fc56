// Closing a watchdog.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/leasewheel/leasewheel/internal/logging"
)

// Close closes the watchdog. It ends every entry with ErrClosed, starts no further
// renewal, cancels the contexts of the calls of Renew, and waits until they have returned.
// It returns the leases that were held, including those whose entries had ended because the
// engine was closed. It does not wait for hooks or for functions of AfterFunc.
//
// If ctx ends first, Close returns the leases of the entries that it has ended, which are a
// thousand at least, and an error with the cause of ctx that tells what is left to do. The
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
			if err == nil {
				err = fmt.Errorf("renewal: Close: a call of Renew has not returned: %w", context.Cause(ctx))
			}
			return leases, err
		}
	}
	return append(leases, w.takeUnreleased()...), err
}

// StopAll is like Close but does not wait for calls of Renew to return.
func (w *Watchdog[L]) StopAll(ctx context.Context) ([]L, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("renewal: nil context")
	case w.engine == nil:
		return nil, errZeroWatchdog
	}
	w.beginClose()
	w.cancel()
	leases := w.takeUnreleased()
	for {
		ended, left := w.stopSome()
		leases = append(leases, ended...)
		switch {
		case left == 0:
			return append(leases, w.takeUnreleased()...), nil
		case ctx.Err() != nil:
			w.stopRest()
			return leases, fmt.Errorf("renewal: Close: %d leases not stopped yet: %w", left, context.Cause(ctx))
		}
		w.letOthersRun()
	}
}

// beginClose closes the watchdog for new entries.
func (w *Watchdog[L]) beginClose() {
	w.mu.Lock()
	defer w.unlock()
	if w.closed {
		return
	}
	w.closed = true
	if m := &w.monitor; m.timer != nil && m.timer.Stop() {
		m.pending--
	}
}

// stopSome ends entries, at most maxPerHold. It returns their leases and the number of
// entries that are left.
func (w *Watchdog[L]) stopSome() (leases []L, left int) {
	w.mu.Lock()
	defer w.unlock()
	m := &w.monitor
	now := w.clock.now()
	leases = make([]L, 0, min(w.held, maxPerHold))
	for range maxPerHold {
		b := m.unvisited.first()
		if b == nil {
			b = m.expiries.first()
		}
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

// stopRest ends the remaining entries in the background.
func (w *Watchdog[L]) stopRest() {
	w.mu.Lock()
	defer w.unlock()
	if w.stoppingRest {
		return
	}
	w.stoppingRest = true
	go func() {
		var leases []L
		for left := 1; left > 0; w.letOthersRun() {
			var ended []L
			ended, left = w.stopSome()
			leases = append(leases, ended...)
		}
		w.mu.Lock()
		defer w.unlock()
		w.unreleased = append(leases, w.unreleased...)
		w.stoppingRest = false
		w.signalDrained()
	}()
}

// takeUnreleased returns the leases that no call of Close has returned yet.
func (w *Watchdog[L]) takeUnreleased() []L {
	w.mu.Lock()
	defer w.unlock()
	leases := w.unreleased
	w.unreleased = nil
	return leases
}

// signalDrained ends the wait of Close if the watchdog is closed and nothing is running.
// The caller holds mu.
func (w *Watchdog[L]) signalDrained() {
	m := &w.monitor
	if !w.closed || w.held > 0 || w.stoppingRest || w.workers > 0 || m.pending > 0 || m.running {
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
	w.records.call(func() {
		logging.Condition(w.log, "renewal: timer engine was closed before the watchdog: leases are no longer renewed",
			slog.String("engine", engine))
	})
}
