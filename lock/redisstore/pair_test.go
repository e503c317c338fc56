package redisstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// BenchmarkPair locks and unlocks a free lock.
func BenchmarkPair(b *testing.B) {
	s := newStore(b, shared.Server(b).Client(b), &Options{Prefix: defaultPrefix})
	c, err := lock.New(s, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close(context.WithoutCancel(b.Context()))) })
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	m := c.Mutex("pair")
	for name, acquire := range map[string]func(context.Context) (*lock.Held, error){"TryLock": m.TryLock, "Lock": m.Lock} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				held, err := acquire(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if err := held.Unlock(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
