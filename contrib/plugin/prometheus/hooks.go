// The hooks that record calls and losses.

package leaseprom

import (
	"context"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Instrument returns a copy of the options, whose hooks count for these metrics and then call
// the hooks that the options had. Use it for one client, made by lock.New, and call Watch with
// that client. A nil *lock.Options means the defaults.
func (m *Metrics) Instrument(o *lock.Options) *lock.Options {
	opts := observe.Instrument(o, lock.Hooks{
		Waiting: m.waiting, Acquired: m.acquired, Refused: m.refused, Released: m.ended, Lost: m.lost,
		BatchDone: m.batch,
	})
	m.engine.Store(observe.EngineOf(opts.Scheduler))
	return opts
}

func (m *Metrics) batch(i renewal.BatchInfo) {
	m.batchSize.Observe(float64(i.Size))
	m.batches[observe.BatchError(i.Err)].Observe(i.Took.Seconds())
}

// waiting makes the series of a lock visible: a candidate that waits leads nothing.
func (m *Metrics) waiting(_ context.Context, i lock.HookInfo) { m.of(i) }

func (m *Metrics) acquired(_ context.Context, i lock.HookInfo) {
	s := m.of(i)
	s.acquired.Observe(i.Waited.Seconds())
	if s.leading != nil {
		s.leading.Inc()
		s.transitions.Inc()
	}
}

func (m *Metrics) refused(_ context.Context, i lock.HookInfo) {
	typ := observe.AcquireError(i, "other")
	m.acquire.WithLabelValues(m.labels(m.series.Key(i), string(i.Outcome), typ)...).Observe(i.Waited.Seconds())
	m.of(i)
}

func (m *Metrics) ended(_ context.Context, i lock.HookInfo) {
	s := m.of(i)
	if i.Outcome == lock.OutcomeUnlocked {
		s.unlocked.Observe(i.Held.Seconds())
	} else {
		m.hold.WithLabelValues(m.labels(m.series.Key(i), string(i.Outcome))...).Observe(i.Held.Seconds())
	}
	if s.leading != nil {
		s.leading.Dec()
	}
}

func (m *Metrics) lost(_ context.Context, i lock.HookInfo) {
	loss, s := observe.LossOf(i.Err), m.of(i)
	s.losses[loss.Reason].Inc()
	if loss.Known {
		m.margins[loss.Reason].Observe(loss.Left)
	}
	m.hold.WithLabelValues(m.labels(m.series.Key(i), loss.End())...).Observe(i.Held.Seconds())
	if s.leading != nil {
		s.leading.Dec()
	}
}
