package leaseprom_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a client in a bubble, with its metrics in a registry.
type bench struct {
	*lock.Client
	t        *testing.T
	mem      *memstore.Store
	fault    atomic.Value // a func: returns the error of an operation
	metrics  *leaseprom.Metrics
	registry *prometheus.Registry
}

// bubble runs a test with a client that has the given options.
func bubble(t *testing.T, o *leaseprom.Options, of lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		b := &bench{t: t, mem: mem, registry: prometheus.NewPedanticRegistry()}
		b.fail(nothing, nil)
		store := (&locktest.Faulty{Before: func(ctx context.Context, op locktest.Op) error {
			return b.fault.Load().(func(context.Context, locktest.Op) error)(ctx, op)
		}}).Over(mem)
		var err error
		b.metrics, err = leaseprom.New(o)
		require.NoError(t, err)
		require.NoError(t, b.registry.Register(b.metrics))
		b.Client, err = b.metrics.NewClient(store, &of)
		require.NoError(t, err)
		defer b.Close(ctx)
		test(t, b)
	})
}

// fail makes all further calls of one operation fail. A nil err makes them wait for the end
// of their ctx.
func (b *bench) fail(which locktest.Op, err error) {
	b.fault.Store(func(ctx context.Context, op locktest.Op) error {
		switch {
		case op != which:
			return nil
		case err == nil:
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return err
	})
}

func (b *bench) lock(l lock.Locker) *lock.Held {
	b.t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(b.t, err)
	return h
}

// value returns a gauge or counter, or the count of a histogram, and -1 if there is no such
// series. labels are name=value.
func (b *bench) value(name string, labels ...string) float64 {
	b.t.Helper()
	if m := b.metric(name, labels...); m != nil {
		switch {
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Counter != nil:
			return m.Counter.GetValue()
		}
		return float64(m.Histogram.GetSampleCount())
	}
	return -1
}

func (b *bench) metric(name string, labels ...string) *dto.Metric {
	b.t.Helper()
	synctest.Wait()
	families, err := b.registry.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		if f.GetName() != name {
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
