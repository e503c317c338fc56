// Goroutines, heap, remaining times and leftover keys of a soak.

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// resources are the goroutines and the heap of a process.
type resources struct {
	goroutines int
	heap       uint64 // bytes in use after a garbage collection
}

func measure() resources {
	runtime.GC()
	runtime.GC() // the second collection empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resources{runtime.NumGoroutine(), m.HeapAlloc}
}

func (l resources) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MB", l.goroutines, float64(l.heap)/1e6)
}

// progress returns the line that is printed each minute.
func (s *soak) progress(began time.Time, least time.Duration) string {
	stats, timers := s.client.Stats(), s.engine.Stats()
	return fmt.Sprintf("%v: held %d, timers %d, renewed %d, unanswered %d, late p99.9 %v, lost %d, churned %d, failed churns %d, least PTTL %v, %v",
		time.Since(began).Round(time.Second), stats.Renewal.Held, timers.Pending, stats.Renewal.Renewed, stats.Renewal.Unknown,
		stats.Renewal.Late.Quantile(0.999), stats.Renewal.Lost(), s.churned.Load(), s.failed.Load(), least, measure())
}

// sample returns the smallest remaining time of some random locks on the server. ok is
// false if the server does not answer.
func (s *soak) sample(ctx context.Context) (least time.Duration, ok bool) {
	const some = 500
	least = s.ttl
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pipe := s.admin.Pipeline()
	var times []*redis.DurationCmd
	for range some {
		times = append(times, pipe.PTTL(ctx, "lw:{"+key(rand.N(s.leases))+"}"))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, false
	}
	for _, one := range times {
		if d := one.Val(); d > 0 { // otherwise the churn has released it
			least = min(least, d)
		}
	}
	return least, true
}

// watch samples once a second and prints once a minute until ctx ends. It returns the
// smallest remaining time of all samples.
func (s *soak) watch(ctx context.Context) time.Duration {
	began, least := time.Now(), s.ttl
	second, minute := time.NewTicker(time.Second), time.NewTicker(time.Minute)
	defer second.Stop()
	defer minute.Stop()
	for {
		select {
		case <-ctx.Done():
			return least
		case <-second.C:
			if d, ok := s.sample(ctx); ok {
				least = min(least, d)
			}
		case <-minute.C:
			fmt.Println(s.progress(began, least))
		}
	}
}

// leftovers counts the keys on the server at the end.
type leftovers struct {
	tokens     int // last tokens
	tombstones int // of abandoned owners
	persistent int // keys without an expiry
	others     int // other keys
}

func (s *soak) countLeftovers(ctx context.Context) (leftovers, error) {
	var out leftovers
	names, err := s.admin.Keys(ctx, "*").Result()
	if err != nil {
		return out, err
	}
	const many = 10_000
	for batch := range slices.Chunk(names, many) {
		pipe := s.admin.Pipeline()
		var times []*redis.DurationCmd
		for _, name := range batch {
			times = append(times, pipe.PTTL(ctx, name))
			switch {
			case strings.HasSuffix(name, "}:t"):
				out.tokens++
			case strings.Contains(name, "}:x:"):
				out.tombstones++
			default:
				out.others++
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return out, err
		}
		for _, one := range times {
			if one.Val() == -1 {
				out.persistent++
			}
		}
	}
	return out, nil
}
