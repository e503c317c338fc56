// The hooks that record calls and losses.

package leaseprom

import (
	"context"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// Instrument returns a copy of the options, whose hooks count for these metrics and then call
// the hooks that the options had. Use it for one client, made by lock.New, and call Watch with
// that client. A nil *lock.Options means the defaults.
func (m *Metrics) Instrument(o *lock.Options) *lock.Options {
	if o == nil {
		o = new(lock.Options)
	}
	opts := *o
	opts.Hooks = m.lockHooks(o.Hooks)
	opts.Renewal.Hooks = m.renewalHooks(o.Renewal.Hooks)
	m.engine.Store(engineOf(o.Scheduler))
	return &opts
}

// engineOf returns the engine behind a Scheduler, or nil if it has no Stats.
func engineOf(s schedule.Scheduler) *engine {
	counting, ok := s.(interface{ Stats() schedule.Stats })
	if !ok {
		return nil
	}
	e := &engine{label: "other", stats: counting.Stats}
	switch s.(type) {
	case *wheel.Wheel:
		e.label = "wheel"
	case *heapqueue.Scheduler:
		e.label = "heap"
	}
	return e
}

// lockHook is a hook of package lock that returns nothing.
type lockHook = func(context.Context, lock.HookInfo)

// lockHooks returns the hooks of the metrics, followed by those of the user.
func (m *Metrics) lockHooks(user *lock.Hooks) *lock.Hooks {
	var hooks lock.Hooks
	if user != nil {
		hooks = *user
	}
	hooks.Waiting = both(m.waiting, hooks.Waiting)
	hooks.Acquired = both(m.acquired, hooks.Acquired)
	hooks.Refused = both(m.refused, hooks.Refused)
	hooks.Released = both(m.ended, hooks.Released)
	hooks.Lost = both(m.lost, hooks.Lost)
	return &hooks
}

// both returns a hook that calls first and then second, which may be nil.
func both(first func(lock.HookInfo), second lockHook) lockHook {
	return func(ctx context.Context, i lock.HookInfo) {
		first(i)
		if second != nil {
			second(ctx, i)
		}
	}
}

// renewalHooks returns the hooks of the metrics, followed by those of the user.
func (m *Metrics) renewalHooks(user *renewal.Hooks) *renewal.Hooks {
	var hooks renewal.Hooks
	if user != nil {
		hooks = *user
	}
	after := hooks.BatchDone
	hooks.BatchDone = func(i renewal.BatchInfo) {
		m.batchSize.Observe(float64(i.Size))
		m.batches[batchError(i.Err)].Observe(i.Took.Seconds())
		if after != nil {
			after(i)
		}
	}
	return &hooks
}

// waiting makes the series of a lock visible: a candidate that waits leads nothing.
func (m *Metrics) waiting(i lock.HookInfo) { m.of(i) }

func (m *Metrics) acquired(i lock.HookInfo) {
	s := m.of(i)
	s.acquired.Observe(i.Waited.Seconds())
	if s.leading != nil {
		s.leading.Inc()
		s.transitions.Inc()
	}
}

func (m *Metrics) refused(i lock.HookInfo) {
	m.acquire.WithLabelValues(m.labels(i, string(i.Outcome), acquireError(i))...).Observe(i.Waited.Seconds())
	m.of(i)
}

func (m *Metrics) ended(i lock.HookInfo) {
	s := m.of(i)
	if i.Outcome == lock.OutcomeUnlocked {
		s.unlocked.Observe(i.Held.Seconds())
	} else {
		m.hold.WithLabelValues(m.labels(i, string(i.Outcome))...).Observe(i.Held.Seconds())
	}
	if s.leading != nil {
		s.leading.Dec()
	}
}

func (m *Metrics) lost(i lock.HookInfo) {
	reason, left, known := lossOf(i.Err)
	s := m.of(i)
	s.losses[reason].Inc()
	if known {
		m.margins[reason].Observe(max(left.Seconds(), 0))
	}
	end := "lost"
	if reason == reasonLimit {
		end = reasonLimit
	}
	m.hold.WithLabelValues(m.labels(i, end)...).Observe(i.Held.Seconds())
	if s.leading != nil {
		s.leading.Dec()
	}
}
