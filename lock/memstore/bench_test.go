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
		got[i] = acquire(b, s, r)
	}
	return got
}

func acquire(b *testing.B, s *memstore.Store, r driver.Request) driver.Lease {
	l, err := s.Acquire(context.Background(), r)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func release(b *testing.B, s *memstore.Store, l driver.Lease) {
	if err := s.Release(context.Background(), l); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPair measures one release and one acquisition while n leases are held.
func BenchmarkPair(b *testing.B) {
	for mode, sizes := range map[driver.Mode][]int{
		driver.Exclusive: {1, 1_000_000}, driver.Read: {1, 50_000}, driver.Permit: {1, 50_000}, driver.Members: {1, 50_000},
	} {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%v/%d", mode, n), func(b *testing.B) {
				s := memstore.New()
				held := leases(b, s, mode, n)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					i = (i + 7919) % n
					release(b, s, held[i])
					held[i] = acquire(b, s, held[i].Request)
				}
			})
		}
	}
}

// BenchmarkRenew measures the renewal of a batch of 512 leases while n locks are held.
func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{512, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := memstore.New()
			held := leases(b, s, driver.Exclusive, n)
			out := make([]renewal.Outcome, 512)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i += len(out); i > n-len(out) {
					i = 0
				}
				if err := s.Renew(context.Background(), held[i:i+len(out)], out); err != nil || out[0] != renewal.Renewed {
					b.Fatal(err, out[0])
				}
			}
		})
	}
}

// BenchmarkHandOver measures one release and the return of the Wait that it ends, while n
// other locks are held. Two goroutines pass the lock to each other.
func BenchmarkHandOver(b *testing.B) {
	for _, n := range []int{1, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := memstore.New()
			leases(b, s, driver.Exclusive, n)
			b.ReportAllocs()
			b.ResetTimer()
			ended := make(chan error, 2)
			for client := range 2 {
				go func() {
					r := driver.Request{Key: "passed", Owner: fmt.Sprint("owner-of-some-length:", client), TTL: time.Hour}
					for range (b.N + 1) / 2 {
						l, err := s.Wait(context.Background(), r, func() {})
						if err == nil {
							err = s.Release(context.Background(), l)
						}
						if err != nil {
							ended <- err
							return
						}
					}
					ended <- nil
				}()
			}
			for range 2 {
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBatchWaiters measures the lock of another key, or of another member of the
// group, while waiters wait for held members.
func BenchmarkBatchWaiters(b *testing.B) {
	group := func(owner string, members ...string) driver.Request {
		return driver.Request{Key: "g", Owner: owner, TTL: time.Hour, Mode: driver.Members, Attrs: &driver.Attrs{Members: members}}
	}
	for name, r := range map[string]driver.Request{
		"another_key":    {Key: "another", Owner: "o", TTL: time.Hour},
		"another_member": group("o", "x"),
	} {
		for _, size := range []struct{ members, waiters int }{{10, 0}, {10, 100}, {driver.MaxMembers, 100}} {
			b.Run(fmt.Sprintf("%s/%d/%d", name, size.members, size.waiters), func(b *testing.B) {
				members := make([]string, size.members)
				for i := range members {
					members[i] = fmt.Sprintf("member%05d", i)
				}
				ctx, cancel := context.WithCancel(context.Background())
				s := memstore.New()
				acquire(b, s, group("holder", members...))
				ended := make(chan error, size.waiters)
				for i := range size.waiters {
					go func() {
						_, err := s.Wait(ctx, group(fmt.Sprint("waiter", i), members...), func() {})
						ended <- err
					}()
				}
				for s.Waiting("g") < size.waiters {
					continue
				}
				for b.Loop() {
					release(b, s, acquire(b, s, r))
				}
				cancel()
				for range size.waiters {
					<-ended
				}
			})
		}
	}
}
