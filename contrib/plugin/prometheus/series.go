// The metrics of a kind and name, made once.

package leaseprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasewheel/leasewheel/lock"
)

// seriesKey selects the series of locks: the name is "" without a Namer.
type seriesKey struct {
	kind lock.Kind
	name string
}

// series are the metrics of all locks of one kind and name that every lock needs. Looking them
// up by their labels each time would cost more than counting.
type series struct {
	acquired    prometheus.Observer
	unlocked    prometheus.Observer
	losses      map[string]prometheus.Counter // by reason
	leading     prometheus.Gauge              // nil unless it is an election
	transitions prometheus.Counter            // the same
}

// of returns the series of a lock, and makes them if it is the first of its kind and name.
func (m *Metrics) of(i lock.HookInfo) *series {
	key := seriesKey{kind: i.Kind}
	if m.namer != nil {
		key.name = m.namer(i.Key)
	}
	m.mu.RLock()
	s := m.series[key]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	return m.add(key)
}

// add makes the series of a kind and name, unless another goroutine has done so.
func (m *Metrics) add(key seriesKey) *series {
	s := &series{
		acquired: m.acquire.WithLabelValues(m.named(key.name, string(key.kind), string(lock.OutcomeAcquired), "")...),
		unlocked: m.hold.WithLabelValues(m.named(key.name, string(key.kind), string(lock.OutcomeUnlocked))...),
		losses:   make(map[string]prometheus.Counter, len(reasons)),
	}
	for _, reason := range reasons {
		s.losses[reason] = m.losses.WithLabelValues(m.named(key.name, string(key.kind), reason)...)
	}
	if key.kind == lock.KindElection {
		s.leading = m.leading.WithLabelValues(m.named(key.name)...)
		s.transitions = m.transitions.WithLabelValues(m.named(key.name)...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if made := m.series[key]; made != nil {
		return made
	}
	m.series[key] = s
	return s
}

// labels returns the values of the labels of a lock: its kind, the given ones, and its name.
func (m *Metrics) labels(i lock.HookInfo, values ...string) []string {
	all := append([]string{string(i.Kind)}, values...)
	if m.namer != nil {
		all = append(all, m.namer(i.Key))
	}
	return all
}

// named returns the values of labels, followed by the name if there is a Namer.
func (m *Metrics) named(name string, values ...string) []string {
	if m.namer != nil {
		values = append(values, name)
	}
	return values
}
