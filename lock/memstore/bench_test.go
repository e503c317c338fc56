package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// leases takes n leases of a mode: of one key, or of n keys for mode Exclusive.
func leases(b *testing.B, s *memstore.Store, mode driver.Mode, n int) []driver.Lease {
	b.Helper()
	got := make([]driver.Lease, n)
	for i := range got {
		r := driver.Request{Key: "k", Owner: fmt.Sprint("owner-of-some-length:", i), TTL: time.Hour, Mode: mode}
		switch mode {
		case driver.Exclusive:
			r.Key = fmt.Sprint("key", i)
		case driver.Permit:
			r.Attrs = &driver.Attrs{Limit: driver.MaxPermits}
		case driver.Members:
			r.Attrs = &driver.Attrs{Members: []string{fmt.Sprint("member", i)}}
		}
		l, err := s.Acquire(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		got[i] = l
	}
	return got
}

// BenchmarkHolders measures one acquisition, one renewal and one release per operation,
// while n leases are held.
func BenchmarkHolders(b *testing.B) {
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Read, driver.Permit, driver.Members} {
		for _, n := range []int{1, 1000, 50_000} {
			b.Run(fmt.Sprintf("%v/%d", mode, n), func(b *testing.B) {
				ctx, s := context.Background(), memstore.New()
				held := leases(b, s, mode, n)
				out := make([]renewal.Outcome, 1)
				b.ReportAllocs()
				b.ResetTimer()
				i := 0
				for b.Loop() {
					i = (i + 7919) % n
					if err := s.Renew(ctx, held[i:i+1], out); err != nil || out[0] != renewal.Renewed {
						b.Fatal(err, out[0])
					}
					if err := s.Release(ctx, held[i]); err != nil {
						b.Fatal(err)
					}
					l, err := s.Acquire(ctx, held[i].Request)
					if err != nil {
						b.Fatal(err)
					}
					held[i] = l
				}
			})
		}
	}
}

// BenchmarkBatchWaiters measures the lock of another key, or of another member of the
// group, while waiters wait for 10,000 held members.
func BenchmarkBatchWaiters(b *testing.B) {
	members := make([]string, driver.MaxMembers)
	for i := range members {
		members[i] = fmt.Sprintf("member%05d", i)
	}
	group := func(owner string, members ...string) driver.Request {
		return driver.Request{Key: "g", Owner: owner, TTL: time.Hour, Mode: driver.Members, Attrs: &driver.Attrs{Members: members}}
	}
	for name, r := range map[string]driver.Request{
		"another_key":    {Key: "another", Owner: "o", TTL: time.Hour},
		"another_member": group("o", "x"),
	} {
		for _, n := range []int{0, 10, 200} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				ctx, cancel := context.WithCancel(context.Background())
				s := memstore.New()
				if _, err := s.Acquire(ctx, group("holder", members...)); err != nil {
					b.Fatal(err)
				}
				ended := make(chan error, n)
				for i := range n {
					go func() {
						_, err := s.Wait(ctx, group(fmt.Sprint("waiter", i), members...))
						ended <- err
					}()
				}
				for s.Waiting("g") < n {
					continue
				}
				b.ResetTimer()
				for b.Loop() {
					l, err := s.Acquire(context.Background(), r)
					if err != nil {
						b.Fatal(err)
					}
					if err := s.Release(context.Background(), l); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				cancel()
				for range n {
					<-ended
				}
			})
		}
	}
}
