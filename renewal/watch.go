package renewal

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// compareEvery is how often the clocks are compared while leases are held.
const compareEvery = time.Second

// watchClocks sees to it that the clocks are compared as long as leases are held.
// A host that was suspended shows as a wall clock that has run ahead of the
// monotonic one, by which the timers run: they would tell of the losses too late.
// The caller holds mu.
func (w *Watchdog[L]) watchClocks(now instant) {
	if w.watching {
		return
	}
	w.lead = now.lead()
	_, err := w.engine.Schedule(compareEvery, (*comparison[L])(w))
	w.watching = err == nil // an engine that is full has room again some day
}

// comparison is a Watchdog as the Task that compares its clocks.
type comparison[L any] Watchdog[L]

func (c *comparison[L]) Run(t schedule.Timer) {
	w := (*Watchdog[L])(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.now()
	jump := time.Duration(now.lead() - w.lead)
	w.lead = now.lead()
	if jump > w.tolerance {
		w.jumped(now, jump)
	}
	w.watching = w.held > 0 && t.Reset(compareEvery)
}

// jumped applies a jump of the wall clock to every entry. The caller holds mu.
func (w *Watchdog[L]) jumped(now instant, jump time.Duration) {
	for e := w.newest; e != nil; {
		older := e.older // e may end and leave the list
		e.jumped(now)
		e = older
	}
	if w.opts.Logger != nil {
		w.reports.lost(func() {
			w.opts.Logger.Warn("renewal: the wall clock ran ahead of the monotonic clock", "by", jump)
		})
	}
}

// reportLoss counts a loss and has it told. The caller holds mu.
func (w *Watchdog[L]) reportLoss(lease L, err *LostError) {
	w.lost[err.Reason]++
	hook, logger := w.opts.Hooks.Lost, w.opts.Logger
	if hook == nil && logger == nil {
		return
	}
	w.reports.lost(func() {
		if logger != nil {
			logLoss(logger, lease, err)
		}
		if hook != nil {
			hook(LostInfo{Lease: lease, Err: err})
		}
	})
}

// logLoss logs a loss. A lease may hold secrets: only what it offers to a log is
// logged.
func logLoss(logger *slog.Logger, lease any, err *LostError) {
	attrs := []slog.Attr{slog.String("reason", err.Reason.String())}
	if v, ok := lease.(slog.LogValuer); ok {
		attrs = append(attrs, slog.Any("lease", v))
	}
	if err.Err != nil {
		attrs = append(attrs, slog.Any("error", err.Err))
	}
	logger.LogAttrs(context.Background(), slog.LevelWarn, "renewal: lease lost", attrs...)
}
