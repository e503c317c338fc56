package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/histories"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var runsOf = map[string]int{simreport.Quick: 1, simreport.Long: 10, simreport.Nightly: 100, simreport.Release: 400}

// plan holds the parameters of a run.
type plan struct {
	args   []string // of the server
	model  histories.Model
	ttl    time.Duration
	rounds int // of all faults
}

// TestRuns runs on a server that makes writes durable before it answers, and on one that loses all data when
// it is killed.
func TestRuns(t *testing.T) {
	runs, p := runsOf[simreport.Tier()], plan{ttl: 500 * time.Millisecond, rounds: 1}
	if simreport.IsLong() {
		p = plan{ttl: time.Second, rounds: 4}
	}
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	if *roundsFlag > 0 {
		p.rounds = *roundsFlag
	}
	test := func(kind string, p plan) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			began, faults := time.Now(), map[string]int{}
			last := *seedFlag + uint64(runs) - 1
			for seed := *seedFlag; seed <= last && !t.Failed(); seed++ {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { p.run(t, seed, faults) })
			}
			report.Add("%-10s  seeds %d to %d, %.0f s, faults %s", kind, *seedFlag, last, time.Since(began).Seconds(), simreport.Counts(faults))
		})
	}
	p.args, p.model = append(testredis.AllowDebug(), "--appendonly", "yes", "--appendfsync", "always"), histories.Locks
	test("durable", p)
	p.args, p.model = testredis.AllowDebug(), histories.Tokens
	test("forgetful", p)
}

const (
	clients = 5
	slack   = 15 * time.Second // extra time on a busy machine
)

// run plays each fault once in a round, in an order of its own, and counts the faults.
func (p plan) run(t *testing.T, seed uint64, counts map[string]int) {
	server := testredis.Start(t, p.args...)
	links, err := newLinks(clients, server.Addr())
	require.NoError(t, err)
	var made []*lock.Client
	for _, l := range links {
		t.Cleanup(l.close)
		made = append(made, p.client(t, l.addr()))
	}
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = admin.Close() })
	to, d := &target{server, links, admin}, simrand.New(seed, 0)
	faults := append(networkFaults(p.ttl), serverFaults()...)

	load := histories.NewLoad(t, p.ttl, made...)
	load.Renewed(0)
	load.Progress()
	for range p.rounds {
		d.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			length := p.ttl / 10
			if d.Chance(700) {
				length = d.UpTo(2 * p.ttl)
			}
			load.Fault(func() { require.NoError(t, f.do(t.Context(), to, d, length), f.name) })
			load.Progress()
			counts[f.name]++
		}
	}
	load.StopWith(p.model)
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	for _, c := range made {
		assert.NoError(t, c.Close(ctx))
	}
	p.checkKeys(t, admin)
}

// client returns a client that connects to addr.
func (p plan) client(t *testing.T, addr string) *lock.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb, nil)
	require.NoError(t, err)
	c, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: p.ttl}})
	require.NoError(t, err)
	return c
}

// checkKeys asserts, after all clients are closed, that every key expires.
func (p plan) checkKeys(t *testing.T, admin *redis.Client) {
	left, err := admin.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range left {
		ttl, err := admin.PTTL(t.Context(), key).Result()
		assert.NoError(t, err)
		assert.NotEqual(t, time.Duration(-1), ttl, "%q does not expire", key)
	}
}
