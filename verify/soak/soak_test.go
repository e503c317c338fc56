package soak

import (
	"context"
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	leasesFlag = flag.Int("leases", 0, "how many; 0: as many as the tier says")
	forFlag    = flag.Duration("for", 0, "how long; 0: as long as the tier says")
	everyFlag  = flag.Duration("every", 0, "the time between two faults; 0: as the tier says")
	churnFlag  = flag.Int("churn", 0, "leases a second that are given back and taken again; 0: as many as the tier says")
)

var report = part.NewReport("soak")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }

var lengthOf = map[string]time.Duration{part.Long: 10 * time.Minute, part.Nightly: 30 * time.Minute, part.Release: 8 * time.Hour}

// planned returns what the tier says, or the flags.
func planned() plan {
	// Renewals fail between the first and the second of each lease, so that none fails
	// twice in a row.
	p := plan{
		leases: 2000, churn: 200, ttl: 18 * time.Second, length: 8 * time.Second,
		calm: 3500 * time.Millisecond, every: 200 * time.Millisecond, fault: 500 * time.Millisecond, once: true,
	}
	if part.IsLong() {
		p = plan{
			leases: 100_000, churn: 500, ttl: 30 * time.Second, length: lengthOf[part.Tier()],
			calm: time.Minute, every: time.Minute, fault: 5 * time.Second,
		}
	}
	if *leasesFlag > 0 {
		p.leases = *leasesFlag
	}
	if *forFlag > 0 {
		p.length = *forFlag
	}
	if *everyFlag > 0 {
		p.calm, p.every = *everyFlag, *everyFlag
	}
	if *churnFlag > 0 {
		p.churn = *churnFlag
	}
	return p
}

// patience is how long a busy machine may take to come to rest.
const patience = 30 * time.Second

// course is what became of a soak.
type course struct {
	taking, giving      time.Duration // all leases
	least               time.Duration // that a sampled lock had left
	stats               renewal.Stats
	before, full, after load
	left                leftover
}

func TestSoak(t *testing.T) {
	s, c := planned().prepare(t), course{before: measure()}
	require.NoError(t, s.begin(t))
	began := time.Now()
	s.each(func(i int) { s.take(t.Context(), i) })
	c.taking, c.full = time.Since(began), measure()
	require.Zero(t, s.failed.Load())
	require.Equal(t, s.leases, s.client.Stats().Renewal.Held)

	c.least = s.endure(t)

	began = time.Now()
	s.each(func(i int) { s.giveBack(t.Context(), i) })
	c.giving = time.Since(began)
	assert.Eventually(t, func() bool { return s.engine.Stats().Pending == 0 }, patience/10, 10*time.Millisecond, "timers are left")
	assert.Eventually(t, func() bool { return s.client.Stats().Cleaning == 0 }, patience, 10*time.Millisecond)
	c.stats = s.client.Stats().Renewal
	var err error
	c.left, err = s.leftovers(t.Context())
	require.NoError(t, err)
	s.end(t, c.before)
	c.after = measure()
	s.report(c)
	s.judge(t, c)
}

// endure lets time pass, with churn and faults, and returns the least time that any
// sampled lock had left.
func (s *soak) endure(t *testing.T) (least time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { s.turnOver(ctx) })
	work.Go(func() { least = s.watch(ctx) })
	assert.NoError(t, s.trouble())
	cancel()
	work.Wait()
	return least
}

// end closes the client, and waits until there are as few goroutines as before.
func (s *soak) end(t *testing.T, before load) {
	assert.NoError(t, s.client.Close(t.Context()))
	s.engine.Close()
	s.client, s.engine, s.held = nil, nil, nil
	s.proxy.Reset()
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before.goroutines+few }, patience, 10*time.Millisecond)
}

// few is by how much goroutines, and the heap in MB, may differ.
const few = 4

func (s *soak) report(c course) {
	report.Add("leases      %d with a TTL of %v, taken in %v, held for %v, given back in %v", s.leases, s.ttl,
		c.taking.Round(time.Millisecond), s.length, c.giving.Round(time.Millisecond))
	report.Add("churn       %d given back and taken again, %d times without an answer or too soon after that", s.churned.Load(), s.failed.Load())
	report.Add("renewals    %d, unanswered %d, late p50 %v, p99.9 %v; least PTTL sampled %v", c.stats.Renewed, c.stats.Unknown,
		c.stats.Late.Quantile(0.5), c.stats.Late.Quantile(0.999), c.least)
	report.Add("faults      %s; the longest took %v", listed(s.faults), s.longest.Round(time.Millisecond))
	report.Add("losses      %d %s", s.losses.count, s.losses.first)
	report.Add("process     before %v; with all leases %v; after %v", c.before, c.full, c.after)
	report.Add("server      after: %d tokens remembered, %d owners that were given up, %d other keys, %d without an end",
		c.left.tokens, c.left.graves, c.left.anything, c.left.endless)
}

// judge fails the test if something was lost, has grown, or was not done at all.
func (s *soak) judge(t *testing.T, c course) {
	assert.Zero(t, s.losses.count, s.losses.first)
	assert.Less(t, s.longest, s.ttl/3, "this machine is too slow: no lease outlives a fault that takes two renewals")
	assert.Zero(t, c.stats.Lost())
	assert.Zero(t, c.stats.Held)
	assert.Zero(t, c.left.anything, "there are keys of locks that nobody holds")
	assert.Zero(t, c.left.endless, "there are keys without an end")
	assert.LessOrEqual(t, c.left.tokens, s.leases)
	assert.Less(t, c.full.goroutines, c.before.goroutines+200, "goroutines that grow with the leases")
	assert.Less(t, c.after.heap, c.before.heap+(c.full.heap-c.before.heap)/20+few*1e6, "bytes that are not given back")

	for _, f := range s.troubles() {
		assert.Positive(t, s.faults[f.name], "%s never came", f.name)
	}
	assert.Greater(t, c.stats.Renewed, uint64(s.leases/4))
	assert.Positive(t, c.stats.Unknown, "no renewal met a fault")
	assert.Greater(t, s.churned.Load(), int64(s.churn))
}
