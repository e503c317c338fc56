// Metrics, a collector, and clients that report to it.

package leaseprom

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Metrics are the metrics of one client. They are a [prometheus.Collector]. All methods are
// safe for concurrent use.
type Metrics struct {
	acquire, hold, margin *prometheus.HistogramVec
	batchTook             *prometheus.HistogramVec
	batchSize             prometheus.Histogram
	losses, transitions   *prometheus.CounterVec
	leading               *prometheus.GaugeVec
	figures               map[string]*prometheus.Desc // by name
	lateness              *prometheus.Desc
	client                atomic.Pointer[lock.Client]    // nil before Watch
	engine                atomic.Pointer[observe.Engine] // nil: there is none, or it has no Stats
	vectors               []prometheus.Collector         // all metrics that hooks change
	batches               map[string]prometheus.Observer
	margins               map[string]prometheus.Observer
	series                *observe.Series[series]
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns metrics for one client. They are empty until NewClient or Instrument is called.
// The error names the bad field of Options.
func New(o *Options) (*Metrics, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	constant := prometheus.Labels{"store": opts.Store}
	var named []string
	if opts.Namer != nil {
		named = []string{"name"}
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: constant, Buckets: buckets}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: constant}, labels)
	}
	m := &Metrics{
		acquire: histogram("leasewheel_lock_acquire_duration_seconds", "Duration of calls of Lock and TryLock.",
			opts.AcquireBuckets, append([]string{"kind", "outcome", "error_type"}, named...)...),
		hold: histogram("leasewheel_lock_hold_duration_seconds", "How long locks were held.",
			opts.HoldBuckets, append([]string{"kind", "end"}, named...)...),
		margin: histogram("leasewheel_lease_loss_margin_seconds", "Time from the notice of a loss to the earliest end of the lease; 0 if the notice came too late.",
			observe.MarginBuckets, "reason"),
		batchTook: histogram("leasewheel_renewal_batch_duration_seconds", "Duration of calls that renew a batch of leases.",
			observe.BatchBuckets, "error_type"),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "leasewheel_renewal_batch_size", Help: "Leases in a batch of renewals.", ConstLabels: constant, Buckets: observe.SizeBuckets,
		}),
		losses: counter("leasewheel_lease_losses_total", "Locks whose lease ended before they were unlocked. The reason limit_reached is no failure.",
			append([]string{"kind", "reason"}, named...)...),
		transitions: counter("leasewheel_election_transitions_total", "Terms as a leader that this client has begun.", named...),
		leading: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leasewheel_election_leading", Help: "Whether this client leads.", ConstLabels: constant,
		}, named),
		figures:  newFigures(constant),
		lateness: prometheus.NewDesc("leasewheel_renewal_lateness_seconds", "How late renewals were sent.", nil, constant),
		batches:  make(map[string]prometheus.Observer),
		margins:  make(map[string]prometheus.Observer),
	}
	m.series = observe.NewSeries(opts.Namer, m.newSeries)
	for _, errorType := range []string{"", observe.Timeout, observe.Unavailable} {
		m.batches[errorType] = m.batchTook.WithLabelValues(errorType)
	}
	for _, reason := range observe.Reasons {
		if reason != observe.NotOwned {
			m.margins[reason] = m.margin.WithLabelValues(reason)
		}
	}
	m.vectors = []prometheus.Collector{m.acquire, m.hold, m.margin, m.batchTook, m.batchSize, m.losses, m.transitions, m.leading}
	return m, nil
}

// NewClient is lock.New with these metrics: it calls Instrument and Watch. The options may
// have hooks of their own. The client must be closed, as any other.
func (m *Metrics) NewClient(store driver.Store, o *lock.Options) (*lock.Client, error) {
	client, err := lock.New(store, m.Instrument(o))
	if err != nil {
		return nil, err
	}
	m.Watch(client)
	return client, nil
}

// Watch makes Collect read the Stats of a client, in place of one that was watched before. It is
// for a client that was made with the result of Instrument. The metrics of a closed client stay.
func (m *Metrics) Watch(c *lock.Client) { m.client.Store(c) }

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors {
		v.Describe(ch)
	}
	for _, desc := range m.figures {
		ch <- desc
	}
	ch <- m.lateness
}

// Collect implements [prometheus.Collector]. It reads Client.Stats and does no IO.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vectors {
		v.Collect(ch)
	}
	if c := m.client.Load(); c != nil {
		s := c.Stats()
		m.send(ch, observe.OfClient(s))
		late := s.Renewal.Late
		ch <- prometheus.MustNewConstHistogram(m.lateness, late.Count(), late.Sum().Seconds(), cumulated(late, observe.LatenessBuckets))
	}
	if e := m.engine.Load(); e != nil {
		m.send(ch, observe.OfEngine(e.Stats()), e.Label)
	}
}
