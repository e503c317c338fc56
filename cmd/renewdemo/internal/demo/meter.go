// The lines that show how a run goes.

package demo

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// screen is the terminal or file to which the demo prints.
type screen struct{ w io.Writer }

func (s *screen) line(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

const showInterval = time.Second

// meter prints what happens while the leases are held.
type meter struct {
	d             *demo
	began, lastAt time.Time
	last          renewal.Stats
}

func newMeter(d *demo) *meter {
	now := time.Now()
	return &meter{d: d, began: now, lastAt: now, last: d.client.Stats().Renewal}
}

// show prints a line for the time since the last one, after the names of its columns if it is the first.
func (m *meter) show() {
	now, stats := time.Now(), m.d.client.Stats().Renewal
	late, passed := stats.Late.Since(m.last.Late), now.Sub(m.lastAt)
	if m.lastAt.Equal(m.began) {
		m.d.screen.line("  time      held renewals/s   batch  late p50  late p99      lost goroutines")
	}
	m.d.screen.line("%5.0fs %9d %10.0f %7.0f %9v %9v %9d %10d",
		now.Sub(m.began).Seconds(), stats.Held, float64(stats.Renewed-m.last.Renewed)/passed.Seconds(),
		float64(late.Count())/float64(max(stats.Batches-m.last.Batches, 1)),
		round(late.Quantile(0.5)), round(late.Quantile(0.99)), stats.Lost(), runtime.NumGoroutine())
	m.last, m.lastAt = stats, now
}

// count formats a number with commas between thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
