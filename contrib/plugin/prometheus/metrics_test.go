package leaseprom_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plugin is what the suite has of this package.
type plugin struct {
	*leaseprom.Metrics
	registry *prometheus.Registry
}

func newPlugin(t *testing.T, o *leaseprom.Options) plugin {
	t.Helper()
	m, err := leaseprom.New(o)
	require.NoError(t, err)
	p := plugin{m, prometheus.NewPedanticRegistry()}
	require.NoError(t, p.registry.Register(m))
	return p
}

func (plugin) Hooked(context.Context) bool { return true }
func (plugin) Close() error                { return nil }

func (p plugin) Point(t testing.TB, name string, labels ...string) (metrictest.Point, bool) {
	t.Helper()
	m := p.metric(t, name, labels...)
	switch {
	case m == nil:
		return metrictest.Point{}, false
	case m.Gauge != nil:
		return metrictest.Point{Value: m.Gauge.GetValue()}, true
	case m.Counter != nil:
		return metrictest.Point{Value: m.Counter.GetValue()}, true
	}
	return metrictest.Point{Value: float64(m.Histogram.GetSampleCount()), Sum: m.Histogram.GetSampleSum()}, true
}

// metric returns the first metric that has the labels, or nil.
func (p plugin) metric(t testing.TB, name string, labels ...string) *dto.Metric {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "leasewheel_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetName()+"="+l.GetValue()] = true
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !has[l] }) {
				return m
			}
		}
	}
	return nil
}

func TestMetrics(t *testing.T) {
	metrictest.Run(t, func(t *testing.T, o metrictest.Options) metrictest.Plugin {
		return newPlugin(t, &leaseprom.Options{Store: o.Store, Namer: o.Namer})
	})
}

func bubble(t *testing.T, o *leaseprom.Options, of lock.Options, test func(t *testing.T, b *metrictest.Bench, p plugin)) {
	t.Helper()
	var p plugin
	open := func(t *testing.T) metrictest.Plugin { p = newPlugin(t, o); return p }
	metrictest.Bubble(t, open, of, func(t *testing.T, b *metrictest.Bench) { test(t, b, p) })
}

// The buckets of the lateness are cumulative, and the durations stay in them.
func TestLateness(t *testing.T) {
	bubble(t, nil, lock.Options{Renewal: seam.Tuned(renewal.Policy{Failures: -1}, seam.Tuning{InFlight: 1})}, func(t *testing.T, b *metrictest.Bench, p plugin) {
		b.Take(b.Mutex("a"))
		b.Fail(locktest.Renew, nil) // each call takes until it is too late
		time.Sleep(100 * time.Millisecond)
		b.Take(b.Mutex("b")) // its renewal finds the only call taken
		time.Sleep(time.Minute)
		synctest.Wait()
		h := p.metric(t, "renewal_lateness_seconds").GetHistogram()
		var last uint64
		for _, bucket := range h.GetBucket() {
			assert.GreaterOrEqual(t, bucket.GetCumulativeCount(), last)
			last = bucket.GetCumulativeCount()
		}
		assert.Equal(t, h.GetSampleCount(), last, "nothing is later than a minute")
		assert.Positive(t, h.GetSampleSum())

		size := b.Sum("renewal_batch_size")
		b.Is(size, "renewal_lateness_seconds") // one for each lease
		p.Instrument(nil).Hooks.BatchDone(renewal.BatchInfo{Size: 7})
		assert.InDelta(t, size+7, b.Sum("renewal_batch_size"), 0)
	})
}

// Instrument leaves the options as they are, so that they can serve another client.
func TestInstrumentCopiesTheOptions(t *testing.T) {
	metrics, err := leaseprom.New(nil)
	require.NoError(t, err)
	o := &lock.Options{MaxWaiters: 7, Hooks: new(lock.Hooks)}
	got := metrics.Instrument(o)
	assert.Equal(t, 7, got.MaxWaiters)
	assert.NotNil(t, got.Hooks.Acquired)
	assert.Nil(t, o.Hooks.Acquired)
	assert.Nil(t, o.Hooks.BatchDone)
	assert.NotNil(t, metrics.Instrument(nil).Hooks.Lost)
}

func TestTheMetricsAreLinted(t *testing.T) {
	bubble(t, &leaseprom.Options{Namer: strings.ToUpper}, lock.Options{}, func(t *testing.T, b *metrictest.Bench, p plugin) {
		require.NoError(t, b.Take(b.Election("e", "me")).Unlock(ctx))
		problems, err := testutil.GatherAndLint(p.registry)
		require.NoError(t, err)
		assert.Equal(t, []promlint.Problem(nil), problems)
	})
}

func TestTwoClientsInOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, store := range []string{"a", "b"} {
		m, err := leaseprom.New(&leaseprom.Options{Store: store})
		require.NoError(t, err)
		require.NoError(t, registry.Register(m))
	}
	again, err := leaseprom.New(&leaseprom.Options{Store: "a"})
	require.NoError(t, err)
	require.ErrorAs(t, registry.Register(again), new(prometheus.AlreadyRegisteredError))
	_, err = registry.Gather()
	require.NoError(t, err, "metrics without a client")
}

func TestBadOptions(t *testing.T) {
	for field, o := range map[string]*leaseprom.Options{
		"AcquireBuckets": {AcquireBuckets: []float64{1, 1}},
		"HoldBuckets":    {HoldBuckets: []float64{2, 1}},
		"Store":          {Store: "\xff"},
	} {
		_, err := leaseprom.New(o)
		require.ErrorContains(t, err, "leaseprom: Options."+field)
	}
	m, err := leaseprom.New(nil)
	require.NoError(t, err)
	_, err = m.NewClient(nil, nil)
	require.Error(t, err)
}
