package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// BenchmarkHandOver measures the time from the call of Unlock to the return of Lock in
// another client. Each waiter is a client with its own connections, as in a separate
// process. A lock is held for 2 ms. For comparison, it measures the round trip of a PING
// with the same pauses.
//
//	p50-µs, p99-µs   of the hand-over
//	ping-µs          p50 of the round trip, before and after
//	cmds/op          scripts per hand-over, as the server counts them
//	jain             fairness: 1 if all clients had the lock equally often
func BenchmarkHandOver(b *testing.B) {
	for _, n := range []int{2, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkHandOver(b, n) })
	}
}

const benchHold = 2 * time.Millisecond

func benchmarkHandOver(b *testing.B, n int) {
	rdb := testredis.Start(b).Client(b)
	clients := make([]*lock.Client, n)
	for i := range clients {
		s, err := New(rdb, nil)
		require.NoError(b, err)
		clients[i], err = lock.New(s, nil)
		require.NoError(b, err)
		defer clients[i].Close(context.Background())
	}
	ping := roundTrip(b, rdb)
	var mu sync.Mutex // guards all below
	var unlocking time.Time
	var took []time.Duration
	turns := make([]float64, n)
	var before, after int
	total := b.N + 2*n // the first turns warm up

	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for {
				h, err := c.Mutex("k").Lock(context.Background())
				now := time.Now()
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				if len(took) == 2*n {
					before = scripts(b, rdb)
				}
				took = append(took, now.Sub(unlocking))
				if len(took) > 2*n {
					turns[i]++
				}
				if len(took) == total {
					after = scripts(b, rdb)
				}
				over := len(took) >= total
				mu.Unlock()
				time.Sleep(benchHold)
				mu.Lock()
				unlocking = time.Now()
				mu.Unlock()
				if err := h.Unlock(context.Background()); err != nil {
					b.Error(err)
				}
				if over {
					return
				}
			}
		})
	}
	wg.Wait()
	ping = (ping + roundTrip(b, rdb)) / 2
	took = took[2*n : total]
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(took[len(took)/2]), "p50-µs")
	b.ReportMetric(us(took[len(took)*99/100]), "p99-µs")
	b.ReportMetric(us(ping), "ping-µs")
	b.ReportMetric(float64(after-before)/float64(b.N), "cmds/op")
	b.ReportMetric(jain(turns), "jain")
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// jain returns Jain's fairness index: the square of the sum, divided by n times the sum of
// the squares.
func jain(turns []float64) float64 {
	var sum, squares float64
	for _, n := range turns {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(len(turns)) * squares)
}

// roundTrip returns the median time of a PING on one connection.
func roundTrip(b *testing.B, rdb *redis.Client) time.Duration {
	b.Helper()
	conn := rdb.Conn()
	defer conn.Close()
	took := make([]time.Duration, 500)
	for i := range took {
		time.Sleep(benchHold)
		start := time.Now()
		require.NoError(b, conn.Ping(context.Background()).Err())
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

var scriptCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// scripts returns how many scripts the server has run.
func scripts(b *testing.B, rdb *redis.Client) (n int) {
	b.Helper()
	info, err := rdb.Info(context.Background(), "commandstats").Result()
	require.NoError(b, err)
	for _, match := range scriptCalls.FindAllStringSubmatch(info, -1) {
		calls, err := strconv.Atoi(match[1])
		require.NoError(b, err)
		n += calls
	}
	return n
}
