// The figures that are read at each collection.

package leaseprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// newFigures returns the descriptions of the metrics that are read from Stats, by their names.
func newFigures(constant prometheus.Labels) map[string]*prometheus.Desc {
	descs := make(map[string]*prometheus.Desc)
	add := func(f observe.Figure, labels ...string) {
		if f.Outcome != "" {
			labels = []string{"outcome"}
		}
		descs[f.Prometheus] = prometheus.NewDesc("leasewheel_"+f.Prometheus, f.Help, labels, constant)
	}
	for _, f := range observe.OfClient(lock.Stats{}) {
		add(f)
	}
	for _, f := range observe.OfEngine(schedule.Stats{}) {
		add(f, "engine")
	}
	return descs
}

// send sends figures.
func (m *Metrics) send(ch chan<- prometheus.Metric, figures []observe.Figure, labels ...string) {
	for _, f := range figures {
		kind, of := prometheus.GaugeValue, labels
		if f.Kind == observe.Counter {
			kind = prometheus.CounterValue
		}
		if f.Outcome != "" {
			of = []string{f.Outcome}
		}
		ch <- prometheus.MustNewConstMetric(m.figures[f.Prometheus], kind, f.Value, of...)
	}
}

// cumulated returns the number of durations of a histogram that are below each bound, in
// seconds.
func cumulated(h renewal.Histogram, bounds []float64) map[float64]uint64 {
	buckets := make(map[float64]uint64, len(bounds))
	for _, bound := range bounds {
		buckets[bound] = 0
	}
	for upper, count := range h.Buckets() {
		if count == 0 {
			continue
		}
		for _, bound := range bounds {
			if upper <= time.Duration(bound*float64(time.Second)) {
				buckets[bound] += count
			}
		}
	}
	return buckets
}
