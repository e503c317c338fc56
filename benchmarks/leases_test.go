package benchmarks

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// BenchmarkLeases holds 100,000 locks with either engine, on memstore and, if a
// redis-server is installed, on Redis. An iteration is two renewal periods of a lease
// of 15 s.
func BenchmarkLeases(b *testing.B) {
	const leases, ttl = 100_000, 15 * time.Second
	stores := []struct {
		name string
		make func(b *testing.B) driver.Store
	}{
		{"memory", func(*testing.B) driver.Store { return memstore.New() }},
		{"redis", redisStore},
	}
	for _, s := range stores {
		for _, e := range engines {
			b.Run(s.name+"/"+e.name, func(b *testing.B) {
				var before, after, end runtime.MemStats
				store := s.make(b)
				runtime.GC()
				runtime.ReadMemStats(&before)
				engine := e.make(b)
				defer engine.Close()
				client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}, Scheduler: engine})
				if err != nil {
					b.Fatal(err)
				}
				held := acquire(b, client, leases)
				time.Sleep(ttl / 3) // all first renewals have passed
				runtime.GC()
				runtime.ReadMemStats(&after)

				first, cpu, start := client.Stats().Renewal, processCPU(), time.Now()
				for b.Loop() {
					time.Sleep(2 * ttl / 3)
				}
				cpu, took := processCPU()-cpu, time.Since(start)
				runtime.ReadMemStats(&end)
				stats := client.Stats().Renewal
				renewals := stats.Renewed - first.Renewed
				late := stats.Late.Since(first.Late)
				b.ReportMetric(float64(renewals)/took.Seconds(), "renewals/s")
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(renewals), "cpu-ns/renewal")
				b.ReportMetric(float64(end.Mallocs-after.Mallocs)/float64(renewals), "allocs/renewal")
				b.ReportMetric(float64(renewals)/float64(stats.Batches-first.Batches), "leases/batch")
				b.ReportMetric(late.Quantile(0.99).Seconds()*1e3, "late-p99-ms")
				b.ReportMetric(float64(stats.Lost()), "lost")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/leases, "B/lease")
				b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
				b.ReportMetric(0, "ns/op")
				runtime.KeepAlive(held)
				if err := client.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func redisStore(b *testing.B) driver.Store {
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.Skip("redis-server is not in PATH")
	}
	server := testredis.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	b.Cleanup(func() { _ = rdb.Close() })
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// acquire acquires n locks with several goroutines.
func acquire(b *testing.B, client *lock.Client, n int) []*lock.Held {
	b.Helper()
	held := make([]*lock.Held, n)
	var wg sync.WaitGroup
	const goroutines = 64
	for worker := range goroutines {
		wg.Go(func() {
			for i := worker; i < n; i += goroutines {
				h, err := client.Mutex(fmt.Sprint("bench:", i)).TryLock(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				held[i] = h
			}
		})
	}
	wg.Wait()
	return held
}
