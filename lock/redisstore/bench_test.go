package redisstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{1, 25, 100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := sharedStore(b)
			leases := acquireAll(b, s, "k", n)
			out := make([]renewal.Outcome, n)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Renew(b.Context(), leases, out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/lease")
		})
	}
}

// BenchmarkReplicas shows the cost of the policy for replicas: an acquire and a release on a
// master with one replica.
func BenchmarkReplicas(b *testing.B) {
	r := startReplicated(b, 1)
	for _, bench := range []struct {
		name   string
		policy Replicas
	}{
		{"none", Replicas{}},
		{"report", Replicas{Count: 1}},
		{"require", Replicas{Count: 1, Require: true}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newStore(b, r.rdb, &Options{Prefix: bench.name, Replicas: bench.policy})
			req := request("k")
			b.ReportAllocs()
			for b.Loop() {
				l, err := s.Acquire(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Release(b.Context(), l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMembers measures an acquire and a release of a batch with n members, alone and
// beside another batch of the same size.
func BenchmarkMembers(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		for _, beside := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/beside=%v", n, beside), func(b *testing.B) {
				s, _ := sharedStore(b)
				batch := func(word string) driver.Request {
					members := make([]string, n)
					for i := range members {
						members[i] = fmt.Sprintf("%s %05d", word, i)
					}
					return moded("k", driver.Members, driver.Attrs{Members: members})
				}
				if beside {
					acquire(b, s, batch("other"))
				}
				r := batch("member")
				for b.Loop() {
					l, err := s.Acquire(b.Context(), r)
					require.NoError(b, err)
					require.NoError(b, s.Release(b.Context(), l))
				}
			})
		}
	}
}

// BenchmarkSharedPair measures an acquire and a release in each mode, by one goroutine.
func BenchmarkSharedPair(b *testing.B) {
	for _, r := range allModes("k") {
		b.Run(r.Mode.String(), func(b *testing.B) {
			s, _ := sharedStore(b)
			for b.Loop() {
				l, err := s.Acquire(b.Context(), r)
				require.NoError(b, err)
				require.NoError(b, s.Release(b.Context(), l))
			}
		})
	}
}

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
