// Goroutines, heap and leftover keys of a soak.

package soak

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

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
