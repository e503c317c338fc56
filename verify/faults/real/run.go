// A run: its users, its faults, and the checks at its end.

package real

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// plan holds the parameters of a run.
type plan struct {
	seed    uint64
	durable bool // the server makes writes durable before it answers; otherwise a kill loses all data
	ttl     time.Duration
	calm    time.Duration // time before the first fault
	rounds  int           // number of rounds of all faults
}

const (
	clients = 5
	users   = 8 // for each client
	keys    = 20

	slack           = 15 * time.Second // extra time on a busy machine
	maxRoundsFactor = 4                // factor for the number of rounds on a busy machine
)

// result holds the counts and violations of a run.
type result struct {
	counts, faults map[string]int
	stale          int // requests that registers rejected
	took           time.Duration
	wrong          []string
}

// args returns the arguments of the server.
func (p plan) args() []string {
	args := testredis.AllowDebug()
	if p.durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	return args
}

// run performs the run on a server that was started for it.
func (p plan) run(ctx context.Context, server *testredis.Server) (result, error) {
	began := time.Now()
	links, err := newLinks(clients, server.Addr())
	if err != nil {
		return result{}, err
	}
	defer func() {
		for _, l := range links {
			l.close()
		}
	}()
	var made []*lock.Client
	for _, l := range links {
		c, err := p.client(l.addr())
		if err != nil {
			return result{}, err
		}
		made = append(made, c)
	}
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	defer func() { _ = admin.Close() }()

	s := &runState{plan: p, history: histories.New(), tally: newTally(), registers: map[string]*register{}}
	for i := range keys {
		s.keys = append(s.keys, fmt.Sprint("key ", i))
		s.registers[s.keys[i]] = new(register)
	}
	stop := s.startUsers(ctx, made)
	calm := s.awaitCalm(ctx, admin)
	another := func(rounds int) bool {
		return rounds < p.rounds || rounds < maxRoundsFactor*p.rounds && len(p.missingOperations(s.tally.snapshot())) > 0
	}
	faults, err := nemesis(ctx, &target{server, links, admin}, simrand.New(p.seed, 0), p.ttl, another)
	stop()
	r := s.check(calm)
	r.wrong = append(r.wrong, closeAll(ctx, made)...)
	if err != nil {
		return result{}, err
	}
	r.wrong = append(r.wrong, p.checkServer(ctx, admin, s.keys)...)
	r.faults, r.took = faults, time.Since(began)
	return r, nil
}

// awaitCalm waits for the planned time without faults. It returns the end of the time in
// which no operation took more than a fifth of the TTL. After a longer pause, a user may
// find its grant too old and ask again.
func (s *runState) awaitCalm(ctx context.Context, admin *redis.Client) (calm int64) {
	const interval = 5 * time.Millisecond
	for end := time.Now().Add(s.calm); time.Now().Before(end) && ctx.Err() == nil; {
		calm = s.history.Now()
		admin.Ping(ctx)
		sleep(ctx, interval)
		if time.Duration(s.history.Now()-calm) > s.ttl/5 {
			sleep(ctx, time.Until(end))
			return calm
		}
	}
	return s.history.Now()
}

// closeAll closes the clients. Each Close must succeed, because no fault is left.
func closeAll(ctx context.Context, made []*lock.Client) (wrong []string) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	for i, c := range made {
		if err := c.Close(ctx); err != nil {
			wrong = append(wrong, fmt.Sprintf("client %d: Close: %v", i, err))
		}
	}
	return wrong
}

// client returns a client that connects to addr.
func (p plan) client(addr string) (*lock.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, &lock.Options{Terms: lock.Terms{TTL: p.ttl}})
}

// runState is shared by the users of a run.
type runState struct {
	plan
	keys      []string
	registers map[string]*register
	history   *histories.History
	tally     *tally
}

// startUsers starts the users. The returned function stops them and waits.
func (s *runState) startUsers(ctx context.Context, made []*lock.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	for i, c := range made {
		for j := range users {
			u := &user{
				number: i*users + j, client: c, keys: s.keys, registers: s.registers,
				history: s.history, tally: s.tally, ttl: s.ttl, durable: s.durable,
			}
			u.dice = simrand.New(s.seed, uint64(u.number)+1)
			work.Go(func() { u.run(ctx) })
		}
	}
	return func() {
		cancel()
		work.Wait()
	}
}

// check runs the checkers.
func (s *runState) check(calm int64) result {
	model := histories.Locks
	if !s.durable {
		model = histories.Tokens
	}
	s.history.EndCalm(calm)
	r := result{counts: s.tally.counts, wrong: s.tally.wrong}
	r.wrong = append(r.wrong, s.history.Violations(model)...)
	for key, reg := range s.registers {
		if n := reg.lostWrites(); n != 0 {
			r.wrong = append(r.wrong, fmt.Sprintf("%s: %d acknowledged writes are lost", key, n))
		}
		r.stale += reg.refused
	}
	return r
}

// checkServer checks the server after all clients are closed: every key expires, and
// every lock can be acquired within a TTL.
func (p plan) checkServer(ctx context.Context, admin *redis.Client, names []string) (wrong []string) {
	left, err := admin.Keys(ctx, "*").Result()
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range left {
		if ttl, err := admin.PTTL(ctx, key).Result(); err != nil || ttl == -1 {
			wrong = append(wrong, fmt.Sprintf("%q does not expire: %v", key, err))
		}
	}
	c, err := p.client(admin.Options().Addr)
	if err != nil {
		return append(wrong, err.Error())
	}
	defer func() { _ = c.Close(ctx) }()
	ctx, cancel := context.WithTimeout(ctx, p.ttl+slack)
	defer cancel()
	for _, key := range names {
		if _, err := c.Mutex(key).Lock(ctx); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s cannot be acquired: %v", key, err))
		}
	}
	return wrong
}

// missing lists what a run did too rarely.
func (p plan) missing(r result) []string {
	out := p.missingOperations(r.counts)
	for _, f := range append(networkFaults(p.ttl), serverFaults()...) {
		out = p.floor(out, f.name, r.faults[f.name], 1)
	}
	return out
}

// missingOperations lists the operations of users that were too rare.
func (p plan) missingOperations(counts map[string]int) (out []string) {
	out = p.floor(out, "granted", counts[string(histories.Granted)], 60)
	out = p.floor(out, "taken", counts[string(histories.Taken)], 10)
	out = p.floor(out, "unknown", counts[string(histories.Unknown)], 10)
	out = p.floor(out, "unlocked", counts[string(histories.Unlocked)], 20)
	out = p.floor(out, "lost", counts[string(histories.Lost)], 2)
	return p.floor(out, "write", counts["write"], 100)
}

// floor appends a message if something was done less than least times in each round.
func (p plan) floor(out []string, what string, did, least int) []string {
	if did >= least*p.rounds {
		return out
	}
	return append(out, fmt.Sprintf("%s: %d, the floor is %d", what, did, least*p.rounds))
}

// kind returns the kind of server.
func (p plan) kind() string {
	if p.durable {
		return "durable"
	}
	return "forgetful"
}

// String returns the kind of server and the seed.
func (p plan) String() string { return fmt.Sprintf("%s, seed %d", p.kind(), p.seed) }
