package redisstore

import (
	"fmt"
	"testing"

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

func BenchmarkAcquireRelease(b *testing.B) {
	s, _ := sharedStore(b)
	r := request("k")
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.Acquire(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Release(b.Context(), l); err != nil {
			b.Fatal(err)
		}
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
