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
func (w *Watchdog[L]) watchClocks(now instant) error {
	if w.watching {
		return nil
	}
	timer, err := w.engine.Schedule(compareEvery, (*comparison[L])(w))
	if err != nil {
		return err
	}
	w.comparison, w.watching = timer, true
	w.least, w.most, w.compared = now.lead(), now.lead(), now.mono
	return nil
}

// comparison is a Watchdog as the Task that compares its clocks.
type comparison[L any] Watchdog[L]

func (c *comparison[L]) Run(t schedule.Timer) {
	w := (*Watchdog[L])(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare(w.clock.now())
	w.watching = w.held > 0 && t.Reset(compareEvery)
}

// compare looks for what a timer cannot know of: clocks that moved apart, by a
// step or bit by bit, and a process that stood still. It remembers how far they were
// apart either way: of two steps, one forward and one back, each may be too small to
// matter where both are not, for a lease that was renewed between them. The caller
// holds mu.
func (w *Watchdog[L]) compare(now instant) {
	lead := now.lead()
	jump := time.Duration(lead - w.least)
	if back := time.Duration(w.most - lead); back > jump {
		jump = -back
	}
	paused := time.Duration(now.mono-w.compared) > compareEvery+w.tolerance
	w.least, w.most, w.compared = min(w.least, lead), max(w.most, lead), now.mono
	switch {
	case jump > w.tolerance || jump < -w.tolerance:
		w.least, w.most = lead, lead
		w.each(func(e *Entry[L]) { e.jumped(now) })
		if logger := w.opts.Logger; logger != nil {
			w.reports.lost(func() {
				logger.Warn("renewal: the wall clock moved against the monotonic clock", "by", jump)
			})
		}
	case paused:
		w.each(func(e *Entry[L]) { e.rearm(now) })
	}
}

// each calls f for every entry; f may end it. The caller holds mu.
func (w *Watchdog[L]) each(f func(e *Entry[L])) {
	for e := w.newest; e != nil; {
		older := e.older
		f(e)
		e = older
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
