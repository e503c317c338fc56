package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// load is what a process has that may grow.
type load struct {
	goroutines int
	heap       uint64 // bytes in use after a collection
}

func measure() load {
	runtime.GC()
	runtime.GC() // pools give up what they hold at the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return load{runtime.NumGoroutine(), m.HeapAlloc}
}

func (l load) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MB", l.goroutines, float64(l.heap)/1e6)
}

// minute is what is printed each minute.
func (s *soak) minute(began time.Time, least time.Duration) string {
	stats, timers := s.client.Stats(), s.engine.Stats()
	return fmt.Sprintf("%v: held %d, timers %d, renewed %d, unanswered %d, late p99.9 %v, lost %d, churned %d, failed turns %d, least PTTL %v, %v",
		time.Since(began).Round(time.Second), stats.Renewal.Held, timers.Pending, stats.Renewal.Renewed, stats.Renewal.Unknown,
		stats.Renewal.Late.Quantile(0.999), stats.Renewal.Lost(), s.churned.Load(), s.failed.Load(), least, measure())
}

// sample returns the least time that any of some locks has left on the server; ok is
// false if it does not answer.
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
		if d := one.Val(); d > 0 { // or else it is being given back and taken again
			least = min(least, d)
		}
	}
	return least, true
}

// watch samples once a second and prints once a minute, until ctx ends. It returns
// the least time that any sampled lock had left.
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
			fmt.Println(s.minute(began, least))
		}
	}
}

// leftover is what is on the server at the end.
type leftover struct {
	tokens   int // remembered
	graves   int // of owners that were given up
	endless  int // keys
	anything int // else
}

func (s *soak) leftovers(ctx context.Context) (leftover, error) {
	var out leftover
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
				out.graves++
			default:
				out.anything++
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return out, err
		}
		for _, one := range times {
			if one.Val() == -1 {
				out.endless++
			}
		}
	}
	return out, nil
}

func listed(of map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(out, ", ")
}
