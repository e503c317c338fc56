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
