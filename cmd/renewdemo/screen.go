package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// screen prints lines. On a terminal the progress is one line that changes; where
// the output goes elsewhere each is a line of its own.
type screen struct {
	w        io.Writer
	terminal bool
	open     bool // a line of progress stands there, to be overwritten
	used     *resources
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{w: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// line prints a line that stays.
func (s *screen) line(format string, args ...any) {
	if s.open {
		fmt.Fprintln(s.w)
		s.open = false
	}
	fmt.Fprintf(s.w, format+"\n", args...)
}

// progress prints a line that the next one overwrites on a terminal.
func (s *screen) progress(text string) {
	if !s.terminal {
		fmt.Fprintln(s.w, text)
		return
	}
	fmt.Fprintf(s.w, "\r\x1b[K%s", text)
	s.open = true
}

// resources is what the run took.
type resources struct {
	goroutines int
	rss        int64
	client     time.Duration // CPU
	server     time.Duration // CPU
	hasServer  bool
	elapsed    time.Duration
	renewals   uint64
}

// usage adds what the run took to the summary.
func (s *screen) usage(b *strings.Builder) {
	u := s.used
	if u == nil || u.renewals == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d goroutines", u.goroutines)
	if u.rss > 0 {
		fmt.Fprintf(b, ", RSS %d MiB", u.rss>>20)
	}
	if u.client > 0 {
		fmt.Fprintf(b, ", CPU of this process %s", share(u.client, u))
	}
	if u.hasServer {
		fmt.Fprintf(b, ", of the server %s", share(u.server, u))
	}
}

func share(cpu time.Duration, u *resources) string {
	return fmt.Sprintf("%.1f %% of a core (%.2f µs per renewal)",
		100*cpu.Seconds()/u.elapsed.Seconds(), float64(cpu.Nanoseconds())/1000/float64(u.renewals))
}

// meter measures a run from second to second.
type meter struct {
	d            *demo
	last         renewal.Stats
	lastAt       time.Time
	first        renewal.Stats
	client       time.Duration // CPU used before
	server       time.Duration
	highWater    int // goroutines
	columnsShown bool
}

func newMeter(ctx context.Context, d *demo) *meter {
	stats := d.client.Stats().Renewal
	m := &meter{d: d, last: stats, lastAt: time.Now(), first: stats, client: processCPU()}
	if d.store.cpu != nil {
		m.server = d.store.cpu(ctx)
	}
	return m
}

// show prints what happened since it was last called.
func (m *meter) show() {
	if !m.columnsShown {
		m.d.screen.line("%6s %9s %11s %7s %9s %9s %8s %11s", "time", "held", "renewals/s", "batch", "late p50", "late p99", "lost", "goroutines")
		m.columnsShown = true
	}
	stats, now := m.d.client.Stats().Renewal, time.Now()
	late := stats.Late.Since(m.last.Late)
	renewals := stats.Renewed - m.last.Renewed
	batches := stats.Batches - m.last.Batches
	mean := float64(late.Count()) / float64(max(batches, 1))
	m.highWater = max(m.highWater, runtime.NumGoroutine())
	m.d.screen.progress(fmt.Sprintf("%5.0fs %9d %11.0f %7.0f %9v %9v %8d %11d",
		now.Sub(m.d.began).Seconds(), stats.Held, float64(renewals)/now.Sub(m.lastAt).Seconds(), mean,
		round(late.Quantile(0.5)), round(late.Quantile(0.99)), stats.Lost(), runtime.NumGoroutine()))
	m.last, m.lastAt = stats, now
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// finish notes what the run took.
func (m *meter) finish(ctx context.Context) {
	d := m.d
	d.screen.used = &resources{
		goroutines: max(m.highWater, runtime.NumGoroutine()),
		rss:        processRSS(),
		client:     processCPU() - m.client,
		elapsed:    time.Since(d.began),
		renewals:   d.client.Stats().Renewal.Renewed - m.first.Renewed,
	}
	if d.store.cpu != nil {
		d.screen.used.server = d.store.cpu(ctx) - m.server
		d.screen.used.hasServer = true
	}
}
