// Measuring a phase of the demo.

package demo

import (
	"context"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// phase is a part of the run, with its progress: in leases, or in milliseconds while the leases
// are held.
type phase struct {
	name  string
	total int
	done  func() int
}

const holdingPhase = "holding"

// sample is what happened since the sample before.
type sample struct {
	held       int
	rate       float64 // renewals per second
	batch      float64 // leases per batch
	p50, p99   time.Duration
	lost       uint64
	goroutines int
}

// meter measures a run and shows the samples.
type meter struct {
	d       *demo
	last    renewal.Stats
	lastAt  time.Time
	history []sample

	began     time.Time // of holding
	first     renewal.Stats
	client    time.Duration // CPU time used before
	server    time.Duration
	highWater int // the largest number of goroutines
	used      *resources
	hasHeader bool // the column names are printed
}

func newMeter(d *demo) *meter {
	return &meter{d: d, last: d.client.Stats().Renewal, lastAt: time.Now()}
}

// watch runs work and shows the progress of its phase until work returns.
func (m *meter) watch(p phase, work func() error) error {
	result := make(chan error, 1)
	go func() { result <- work() }()
	ticker := time.NewTicker(m.d.screen.interval())
	defer ticker.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-ticker.C:
			m.show(p)
		}
	}
}

// show takes a sample and prints it: on a terminal as a table that replaces the one before,
// otherwise as a line.
func (m *meter) show(p phase) {
	now := time.Now()
	if m.d.screen.terminal {
		m.measure(now)
		m.d.screen.draw(m.table(p))
		return
	}
	if p.name != holdingPhase {
		m.d.screen.line("%s: %s of %s", p.name, count(p.done()), count(p.total))
		return
	}
	if now.Sub(m.began) < time.Second { // the first sample has nothing to report yet
		return
	}
	if !m.hasHeader {
		m.hasHeader = true
		m.d.screen.line("%s", header)
	}
	m.d.screen.line("%s", m.measure(now).row(now.Sub(m.began)))
}

// measure appends a sample to the history.
func (m *meter) measure(now time.Time) sample {
	stats := m.d.client.Stats().Renewal
	late := stats.Late.Since(m.last.Late)
	s := sample{
		held:       stats.Held,
		batch:      float64(late.Count()) / float64(max(stats.Batches-m.last.Batches, 1)),
		p50:        late.Quantile(0.5),
		p99:        late.Quantile(0.99),
		lost:       stats.Lost(),
		goroutines: runtime.NumGoroutine(),
	}
	if passed := now.Sub(m.lastAt); passed > 0 {
		s.rate = float64(stats.Renewed-m.last.Renewed) / passed.Seconds()
	}
	m.highWater = max(m.highWater, s.goroutines)
	m.last, m.lastAt = stats, now
	m.history = append(m.history, s)
	if len(m.history) > sparkWidth {
		m.history = m.history[1:]
	}
	return s
}

// begin starts the measurement of the resources.
func (m *meter) begin(ctx context.Context) {
	m.began, m.first, m.client = time.Now(), m.d.client.Stats().Renewal, processCPU()
	if m.d.store.CPU != nil {
		m.server = m.d.store.CPU(ctx)
	}
}

// finish records the resource usage since begin.
func (m *meter) finish(ctx context.Context) {
	d := m.d
	m.used = &resources{
		goroutines: max(m.highWater, runtime.NumGoroutine()),
		rss:        processRSS(),
		client:     processCPU() - m.client,
		elapsed:    time.Since(m.began),
		renewals:   d.client.Stats().Renewal.Renewed - m.first.Renewed,
	}
	if d.store.CPU != nil {
		m.used.server = d.store.CPU(ctx) - m.server
		m.used.hasServer = true
	}
}
