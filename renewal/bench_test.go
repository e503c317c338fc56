package renewal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// benchEngine is an engine that fires its timers only when fire is called.
type benchEngine struct{ tasks []schedule.Task }

func (e *benchEngine) Schedule(_ time.Duration, task schedule.Task) (schedule.Timer, error) {
	e.tasks = append(e.tasks, task)
	return schedule.NewTimer(e, uint64(len(e.tasks))), nil
}

func (e *benchEngine) ResetTimer(uint64, time.Duration) bool  { return true }
func (e *benchEngine) StopTimer(uint64) bool                  { return true }
func (e *benchEngine) AwaitTimer(uint64)                      {}
func (e *benchEngine) TimerDeadline(uint64) (time.Time, bool) { return time.Time{}, false }

func (e *benchEngine) fire() {
	for i, task := range e.tasks {
		task.Run(schedule.NewTimer(e, uint64(i+1)))
	}
}

// benchStore renews every lease and counts the renewals.
type benchStore struct{ renewed atomic.Int64 }

func (s *benchStore) Renew(_ context.Context, batch []int, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	s.renewed.Add(int64(len(batch)))
	return nil
}

func benchWatchdog(tb testing.TB, o *renewal.Options) (*renewal.Watchdog[int], *benchEngine, *benchStore) {
	tb.Helper()
	engine, store := new(benchEngine), new(benchStore)
	w, err := renewal.New(engine, renewal.Renewer[int](store), o)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_, err := w.Close(context.Background())
		require.NoError(tb, err)
	})
	return w, engine, store
}

func benchEntry(tb testing.TB, w *renewal.Watchdog[int]) *renewal.Entry[int] {
	tb.Helper()
	e, err := w.Register(1, renewal.Grant{TTL: 30 * time.Second, Sent: time.Now()})
	require.NoError(tb, err)
	return e
}

func BenchmarkRegisterStop(b *testing.B) {
	w, engine, _ := benchWatchdog(b, nil)
	grant := renewal.Grant{TTL: 30 * time.Second, Sent: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		e, err := w.Register(1, grant)
		if err != nil {
			b.Fatal(err)
		}
		e.Stop()
		engine.tasks = engine.tasks[:0]
	}
}

func BenchmarkValid(b *testing.B) {
	w, _, _ := benchWatchdog(b, nil)
	e := benchEntry(b, w)
	b.ReportAllocs()
	for b.Loop() {
		if !e.Valid() {
			b.Fatal("lost")
		}
	}
}

// BenchmarkRenew renews 10,000 leases per iteration, from the timer to the new deadline.
func BenchmarkRenew(b *testing.B) {
	const leases = 10_000
	w, engine, store := benchWatchdog(b, &renewal.Options{Fraction: 1.0 / 10_000, Align: -1})
	for range leases {
		benchEntry(b, w)
	}
	b.ReportAllocs()
	round := int64(0)
	for b.Loop() {
		b.StopTimer()
		time.Sleep(4 * time.Millisecond) // longer than a period: all leases become due
		b.StartTimer()
		round++
		for store.renewed.Load() < round*leases {
			engine.fire()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/leases, "ns/lease")
}
