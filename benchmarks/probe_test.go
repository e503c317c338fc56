package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// probe is a task that sends the time at which it runs.
type probe chan time.Time

func (p probe) Run(schedule.Timer) { p <- time.Now() }

// BenchmarkProbe measures the lateness of timers of 5 ms, one after another, while
// others that are due in 40 to 80 s are pending. With -benchtime 7000x it takes 36 s;
// the wheel empties coarse buckets after 16.4 and 32.8 s. The program timers has rows
// for more peers.
func BenchmarkProbe(b *testing.B) {
	const delay = 5 * time.Millisecond
	for _, pending := range []int{0, 1_000_000, 10_000_000} {
		for _, e := range engines {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, e.name), func(b *testing.B) {
				s := e.make(b)
				defer s.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				start := time.Now()
				for range pending {
					due := 40*time.Second + time.Duration(rng.Int64N(int64(40*time.Second)))
					if _, err := s.Schedule(due-time.Since(start), noopTask{}); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				late := make([]time.Duration, b.N)
				ran := make(probe, 1)
				b.ResetTimer()
				for i := range late {
					due := time.Now().Add(delay)
					if _, err := s.Schedule(delay, ran); err != nil {
						b.Fatal(err)
					}
					late[i] = (<-ran).Sub(due)
				}
				b.StopTimer()
				slices.Sort(late)
				for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.99": 0.9999, "worst": 1} {
					at := min(int(share*float64(b.N)), b.N-1)
					b.ReportMetric(float64(late[at].Microseconds())/1000, name+"-late-ms")
				}
			})
		}
	}
}
