//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// BenchmarkPairCPU shows where the processor time goes when a free lock is locked and unlocked.
// Each level has a server of its own and does a part of the work:
//
//	plain     two scripts like those of bsm/redislock, sent by go-redis
//	by-hand   the scripts of the store, written to a socket without a client library
//	go-redis  the scripts of the store, sent by go-redis
//	store     Acquire and Release
//	client    TryLock and Unlock
//
// The levels take turns of a tenth of a second, so that a change of the machine's speed affects
// all of them. The figures are the medians of the turns.
func BenchmarkPairCPU(b *testing.B) {
	const turns, turn = 40, 100 * time.Millisecond
	levels := []*pairLevel{plainLevel(b), byHandLevel(b), goRedisLevel(b), storeLevel(b), clientLevel(b)}
	for range turns {
		for _, level := range levels {
			level.measure(b, turn)
		}
	}
	for _, level := range levels {
		b.Run(level.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // nothing runs here
			b.ReportMetric(median(level.own), "client-us/pair")
			b.ReportMetric(median(level.server), "server-us/pair")
		})
	}
}

// pairLevel is a way to lock and unlock, and its processor time in µs per pair.
type pairLevel struct {
	name        string
	rdb         *redis.Client
	pair        func(ctx context.Context) error
	own, server []float64
}

// newPairLevel returns a level without a pair, and the address of its server.
func newPairLevel(b *testing.B, name string) (level *pairLevel, addr string) {
	b.Helper()
	server := testredis.Start(b)
	return &pairLevel{name: name, rdb: server.Client(b)}, server.Addr()
}

// measure locks and unlocks for some time.
func (l *pairLevel) measure(b *testing.B, window time.Duration) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context()) // a context that can be cancelled costs more
	defer cancel()
	pairs := 0
	own, server := processorTime(b), l.serverTime(b)
	for end := time.Now().Add(window); time.Now().Before(end); pairs++ {
		require.NoError(b, l.pair(ctx))
	}
	perPair := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(pairs) }
	l.own = append(l.own, perPair(processorTime(b)-own))
	l.server = append(l.server, perPair(l.serverTime(b)-server))
}

// serverTime returns the processor time that the server has used.
func (l *pairLevel) serverTime(b *testing.B) (used time.Duration) {
	b.Helper()
	info, err := l.rdb.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}

func plainLevel(b *testing.B) *pairLevel {
	l, _ := newPairLevel(b, "plain")
	take := redis.NewScript("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])")
	give := redis.NewScript("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
	l.pair = func(ctx context.Context) error {
		if err := take.Run(ctx, l.rdb, []string{"k"}, "owner", 30000).Err(); err != nil {
			return err
		}
		return give.Run(ctx, l.rdb, []string{"k"}, "owner").Err()
	}
	return l
}

// pairArgs returns the keys and arguments of the scripts of the store, for an owner of its own.
func pairArgs() (ks []string, acquire, release []any) {
	r := request("k")
	k := (&Store{prefix: defaultPrefix}).keys(r.Key, r.Owner)
	return all(k), []any{r.Owner, r.TTL.Milliseconds()}, []any{r.Owner}
}

func byHandLevel(b *testing.B) *pairLevel {
	l, addr := newPairLevel(b, "by-hand")
	for _, script := range []string{acquireScript.Source(), releaseScript.Source()} {
		require.NoError(b, l.rdb.ScriptLoad(b.Context(), script).Err())
	}
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.Close()) })
	replies := bufio.NewReader(conn)
	var buffer []byte
	send := func(digest string, keys []string, args []any, lines int) error {
		words := append([]string{"EVALSHA", digest, strconv.Itoa(len(keys))}, keys...)
		for _, arg := range args {
			words = append(words, fmt.Sprint(arg))
		}
		buffer = appendLine(buffer[:0], "*", len(words))
		for _, word := range words {
			buffer = appendLine(buffer, "$", len(word))
			buffer = append(append(buffer, word...), "\r\n"...)
		}
		if _, err := conn.Write(buffer); err != nil {
			return err
		}
		for range lines {
			line, err := replies.ReadSlice('\n')
			if err != nil || line[0] == '-' {
				return fmt.Errorf("reply %q: %w", line, err)
			}
		}
		return nil
	}
	l.pair = func(context.Context) error {
		keys, acquire, release := pairArgs()
		if err := send(acquireScript.Digest(), keys, acquire, 2); err != nil {
			return err
		}
		return send(releaseScript.Digest(), keys[:fewestKeys], release, 1)
	}
	return l
}

// appendLine appends a line of the protocol of Redis that consists of a type and a length.
func appendLine(to []byte, kind string, length int) []byte {
	return append(strconv.AppendInt(append(to, kind...), int64(length), 10), "\r\n"...)
}

func goRedisLevel(b *testing.B) *pairLevel {
	l, _ := newPairLevel(b, "go-redis")
	acquireIt, releaseIt := redis.NewScript(acquireScript.Source()), redis.NewScript(releaseScript.Source())
	l.pair = func(ctx context.Context) error {
		keys, acquire, release := pairArgs()
		if err := acquireIt.Run(ctx, l.rdb, keys, acquire...).Err(); err != nil {
			return err
		}
		return releaseIt.Run(ctx, l.rdb, keys[:fewestKeys], release...).Err()
	}
	return l
}

func storeLevel(b *testing.B) *pairLevel {
	l, _ := newPairLevel(b, "store")
	s := newStore(b, l.rdb, &Options{Prefix: defaultPrefix})
	l.pair = func(ctx context.Context) error {
		lease, err := s.Acquire(ctx, request("k"))
		if err != nil {
			return err
		}
		return s.Release(ctx, lease)
	}
	return l
}

func clientLevel(b *testing.B) *pairLevel {
	l, _ := newPairLevel(b, "client")
	c, err := lock.New(newStore(b, l.rdb, &Options{Prefix: defaultPrefix}), nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close(context.WithoutCancel(b.Context()))) })
	l.pair = func(ctx context.Context) error {
		held, err := c.Mutex("k").TryLock(ctx)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}
	return l
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
