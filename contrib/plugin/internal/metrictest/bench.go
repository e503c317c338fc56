// Package metrictest is the suite of the packages that turn the hooks of clients into metrics.
package metrictest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// ErrIO is an error of a store.
var ErrIO = errors.New("connection reset")

var ctx = context.Background()

// Plugin is what a test has of a package.
type Plugin interface {
	NewClient(store driver.Store, o *lock.Options) (*lock.Client, error)
	Watch(c *lock.Client)

	// Point returns the first point of a metric with the labels, each name=value. Names are those of
	// leaseprom, without the prefix. An empty value is that of a label that is empty or missing.
	Point(t testing.TB, name string, labels ...string) (Point, bool)

	// Hooked reports whether the context of a hook is one for the hooks of the user.
	Hooked(ctx context.Context) bool
	Close() error
}

// Point is the value of a counter or gauge, or the number and the sum of what a histogram has.
type Point struct{ Value, Sum float64 }

// Options are the options common to all packages.
type Options struct {
	Store string
	Namer func(key string) string
}

// Bench is a client in a bubble.
type Bench struct {
	*lock.Client
	Plugin
	Mem   *memstore.Store
	Store driver.Store // fails as Fail states
	t     testing.TB
	fault atomic.Value // a func: returns the error of an operation
}

// Bubble runs a test with a client of the plugin that has the given options.
func Bubble(t *testing.T, open func(t *testing.T) Plugin, o lock.Options, test func(t *testing.T, b *Bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := NewBench(t, open(t))
		var err error
		b.Client, err = b.NewClient(b.Store, &o)
		require.NoError(t, err)
		defer func() { assert.NoError(t, b.Plugin.Close()) }()
		defer b.Client.Close(ctx)
		test(t, b)
	})
}

// NewBench returns a bench without a client.
func NewBench(t testing.TB, p Plugin) *Bench {
	b := &Bench{Plugin: p, Mem: memstore.New(), t: t}
	b.Fail("", nil)
	b.Store = (&locktest.Faulty{Before: func(ctx context.Context, op locktest.Op) error {
		return b.fault.Load().(func(context.Context, locktest.Op) error)(ctx, op)
	}}).Over(b.Mem)
	return b
}

// Fail makes all further calls of one operation fail. A nil err makes them wait for the end of their ctx.
func (b *Bench) Fail(which locktest.Op, err error) {
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

// Take locks.
func (b *Bench) Take(l lock.Locker) *lock.Held {
	b.t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(b.t, err)
	return h
}

// Value returns the value of a point, and -1 if there is none.
func (b *Bench) Value(name string, labels ...string) float64 {
	b.t.Helper()
	synctest.Wait()
	if p, ok := b.Point(b.t, name, labels...); ok {
		return p.Value
	}
	return -1
}

// Is asserts the value of a point.
func (b *Bench) Is(want float64, name string, labels ...string) {
	b.t.Helper()
	assert.InDelta(b.t, want, b.Value(name, labels...), 0, "%s %v", name, labels)
}

// Sum returns the sum of a histogram.
func (b *Bench) Sum(name string, labels ...string) float64 {
	b.t.Helper()
	synctest.Wait()
	p, ok := b.Point(b.t, name, labels...)
	require.True(b.t, ok, "%s %v", name, labels)
	return p.Sum
}

// Open opens a client.
type Open func(b *testing.B, store driver.Store) (*lock.Client, error)

// Pairs measures an uncontended Lock and its Unlock in memory, without a package and with it in several ways.
func Pairs(b *testing.B, ways map[string]Open) {
	ways["without"] = func(_ *testing.B, store driver.Store) (*lock.Client, error) { return lock.New(store, nil) }
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		b.Run(name, func(b *testing.B) {
			client, err := ways[name](b, memstore.New())
			require.NoError(b, err)
			defer client.Close(ctx)
			m := client.Mutex("orders:1")
			b.ReportAllocs()
			for b.Loop() {
				h, err := m.Lock(ctx)
				if err != nil || h.Unlock(ctx) != nil {
					b.Fatal("not locked")
				}
			}
		})
	}
}
