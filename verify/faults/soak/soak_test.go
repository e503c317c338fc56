package soak

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var report = simreport.NewReport("soak")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }

var lengthOf = map[string]time.Duration{simreport.Long: 10 * time.Minute, simreport.Nightly: 30 * time.Minute, simreport.Release: 8 * time.Hour}

// newPlan returns the plan of the tier.
func newPlan() plan {
	if simreport.IsLong() {
		return plan{
			leases: 100_000, churn: 500, ttl: 30 * time.Second, length: lengthOf[simreport.Tier()],
			calm: time.Minute, every: time.Minute, fault: 5 * time.Second,
		}
	}
	// All faults occur between the first and the second renewal of each lease, so no
	// renewal fails twice in a row.
	return plan{
		leases: 2000, churn: 200, ttl: 18 * time.Second, length: 8 * time.Second,
		calm: 3500 * time.Millisecond, every: 200 * time.Millisecond, fault: 500 * time.Millisecond, once: true,
	}
}

// settleTime bounds the time in which a busy machine becomes idle.
const settleTime = 30 * time.Second

// result holds the measurements of a soak.
type result struct {
	acquiring, releasing time.Duration // time for all leases
	stats                renewal.Stats
	before, full, after  resources
	left                 leftovers
}

// TestSoak runs a soak as planned.
func TestSoak(t *testing.T) {
	s, c := newPlan().prepare(t), result{before: measure()}
	require.NoError(t, s.begin(t))
	began := time.Now()
	s.each(func(i int) { s.acquire(t.Context(), i) })
	c.acquiring, c.full = time.Since(began), measure()
	require.Zero(t, s.failed.Load())
	require.Equal(t, s.leases, s.client.Stats().Renewal.Held)

	ctx, cancel := context.WithCancel(t.Context())
	churned := make(chan struct{})
	go func() {
		defer close(churned)
		s.runChurn(ctx)
	}()
	assert.NoError(t, s.runFaults())
	cancel()
	<-churned

	began = time.Now()
	s.each(func(i int) { s.release(t.Context(), i) })
	c.releasing = time.Since(began)
	assert.Eventually(t, func() bool { return s.engine.Stats().Pending == 0 }, settleTime/10, 10*time.Millisecond, "timers are left")
	assert.Eventually(t, func() bool { return s.client.Stats().Releasing == 0 }, settleTime, 10*time.Millisecond)
	c.stats = s.client.Stats().Renewal
	var err error
	c.left, err = s.countLeftovers(t.Context())
	require.NoError(t, err)
	s.end(t, c.before)
	c.after = measure()
	s.report(c)
	s.check(t, c)
}

// end closes the client and waits until its goroutines have ended.
func (s *soak) end(t *testing.T, before resources) {
	assert.NoError(t, s.client.Close(t.Context()))
	s.engine.Close()
	s.client, s.engine, s.held = nil, nil, nil
	s.proxy.Reset()
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before.goroutines+tolerance }, settleTime, 10*time.Millisecond)
}

// tolerance is the allowed growth of goroutines, and of the heap in MB.
const tolerance = 4

func (s *soak) report(c result) {
	report.Add("leases      %d with a TTL of %v, acquired in %v, held for %v, released in %v", s.leases, s.ttl,
		c.acquiring.Round(time.Millisecond), s.length, c.releasing.Round(time.Millisecond))
	report.Add("churn       %d released and reacquired, %d failed without an answer or shortly after", s.churned.Load(), s.failed.Load())
	report.Add("renewals    %d, unanswered %d, late p50 %v, p99.9 %v", c.stats.Renewed, c.stats.Unknown,
		c.stats.Late.Quantile(0.5), c.stats.Late.Quantile(0.999))
	report.Add("faults      %s; the longest took %v", simreport.Counts(s.faults), s.longest.Round(time.Millisecond))
	report.Add("losses      %d %s", s.losses.count, s.losses.first)
	report.Add("process     before %v; with all leases %v; after %v", c.before, c.full, c.after)
	report.Add("server      after: %d last tokens, %d tombstones, %d other keys, %d without an expiry",
		c.left.tokens, c.left.tombstones, c.left.others, c.left.persistent)
}

// check fails the test if a lease was lost, a resource has grown, or a fault is missing.
func (s *soak) check(t *testing.T, c result) {
	assert.Zero(t, s.losses.count, s.losses.first)
	assert.Less(t, s.longest, s.ttl/3, "this machine is too slow: a fault lasted longer than a renewal period")
	assert.Zero(t, c.stats.Lost())
	assert.Zero(t, c.stats.Held)
	assert.Zero(t, c.left.others, "there are keys of locks that nobody holds")
	assert.Zero(t, c.left.persistent, "there are keys without an expiry")
	assert.LessOrEqual(t, c.left.tokens, s.leases)
	assert.Less(t, c.full.goroutines, c.before.goroutines+200, "goroutines grow with the leases")
	assert.Less(t, c.after.heap, c.before.heap+(c.full.heap-c.before.heap)/20+tolerance*1e6, "memory is not released")

	for _, f := range s.nemesis() {
		assert.Positive(t, s.faults[f.name], "%s never occurred", f.name)
	}
	assert.Greater(t, c.stats.Renewed, uint64(s.leases/4))
	assert.Positive(t, c.stats.Unknown, "no renewal failed")
	assert.Greater(t, s.churned.Load(), int64(s.churn))
}
