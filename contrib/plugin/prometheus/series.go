// The metrics of a kind and name, made once.

package leaseprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
)

// series are the metrics of all locks of one kind and name that every lock needs.
type series struct {
	acquired    prometheus.Observer
	unlocked    prometheus.Observer
	losses      map[string]prometheus.Counter // by reason
	leading     prometheus.Gauge              // nil unless it is an election
	transitions prometheus.Counter            // the same
}

// of returns the series of a lock.
func (m *Metrics) of(i lock.HookInfo) *series { return m.series.Of(m.series.Key(i)) }

// newSeries makes the series of a kind and name.
func (m *Metrics) newSeries(key observe.Key) *series {
	s := &series{
		acquired: m.acquire.WithLabelValues(m.labels(key, string(lock.OutcomeAcquired), "")...),
		unlocked: m.hold.WithLabelValues(m.labels(key, string(lock.OutcomeUnlocked))...),
		losses:   make(map[string]prometheus.Counter, len(observe.Reasons)),
	}
	for _, reason := range observe.Reasons {
		s.losses[reason] = m.losses.WithLabelValues(m.labels(key, reason)...)
	}
	if key.Kind == lock.KindElection {
		s.leading = m.leading.WithLabelValues(m.named(key)...)
		s.transitions = m.transitions.WithLabelValues(m.named(key)...)
	}
	return s
}

// labels returns the values of labels: the kind, the given ones, and the name if there is a Namer.
func (m *Metrics) labels(key observe.Key, values ...string) []string {
	return m.named(key, append([]string{string(key.Kind)}, values...)...)
}

// named returns the values of labels, followed by the name if there is a Namer.
func (m *Metrics) named(key observe.Key, values ...string) []string {
	if m.series.Named() {
		values = append(values, key.Name)
	}
	return values
}
