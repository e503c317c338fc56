package real

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// plan is one run.
type plan struct {
	seed    uint64
	durable bool // the server makes each write durable before it answers; else it forgets all when it is killed
	ttl     time.Duration
	calm    time.Duration // before the first fault
	rounds  int           // of all faults
}

const (
	clients = 5
	users   = 8 // of each client
	keys    = 20

	patience = 15 * time.Second // beyond what is promised, for a machine that is busy
	patient  = 4                // times as many rounds at the most, for one so busy that users come to nothing
)

// result is what a run did, and what was wrong.
type result struct {
	counts, faults map[string]int
	stale          int // requests that registers refused
	took           time.Duration
	wrong          []string
}

// args are those of a server that a run is played on.
func (p plan) args() []string {
	args := []string{"--enable-debug-command", "yes"}
	if p.durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	return args
}

// play plays a run on a server that was started for it.
func (p plan) play(ctx context.Context, server *testredis.Server) (result, error) {
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

	s := &stage{plan: p, history: newHistory(), tally: newTally(), registers: map[string]*register{}}
	for i := range keys {
		s.keys = append(s.keys, fmt.Sprint("key ", i))
		s.registers[s.keys[i]] = new(register)
	}
	stop := s.admit(ctx, made)
	calm := s.rests(ctx, admin)
	another := func(rounds int) bool {
		return rounds < p.rounds || rounds < patient*p.rounds && len(p.idle(s.tally.counted())) > 0
	}
	faults, err := nemesis(ctx, &place{server, links, admin}, chance.New(p.seed, 0), p.ttl, another)
	stop()
	r := s.judge(calm)
	r.wrong = append(r.wrong, closeAll(ctx, made)...)
	if err != nil {
		return result{}, err
	}
	r.wrong = append(r.wrong, p.leftovers(ctx, admin, s.keys)...)
	r.faults, r.took = faults, time.Since(began)
	return r, nil
}

// rests lets the users be without a fault for a time, and returns until when nothing
// failed by itself: where the machine or the server stands still for a part of a TTL,
// a lock may be granted to one who finds the answer too old and asks again.
func (s *stage) rests(ctx context.Context, admin *redis.Client) (calm int64) {
	const glance = 5 * time.Millisecond
	for end := time.Now().Add(s.calm); time.Now().Before(end) && ctx.Err() == nil; {
		calm = s.history.now()
		admin.Ping(ctx)
		rest(ctx, glance)
		if time.Duration(s.history.now()-calm) > s.ttl/5 {
			rest(ctx, time.Until(end))
			return calm
		}
	}
	return s.history.now()
}

// closeAll closes the clients, when all is well again: so each must succeed.
func closeAll(ctx context.Context, made []*lock.Client) (wrong []string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, c := range made {
		if err := c.Close(ctx); err != nil {
			wrong = append(wrong, fmt.Sprintf("client %d: Close: %v", i, err))
		}
	}
	return wrong
}

// client returns a client that reaches the server by its link.
func (p plan) client(addr string) (*lock.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, &lock.Options{Terms: lock.Terms{TTL: p.ttl}})
}

// stage is what the users of a run share.
type stage struct {
	plan
	keys      []string
	registers map[string]*register
	history   *history
	tally     *tally
}

// admit lets the users begin; the function returned ends them and waits for it.
func (s *stage) admit(ctx context.Context, made []*lock.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	for i, c := range made {
		for j := range users {
			u := &user{
				number: i*users + j, client: c, keys: s.keys, registers: s.registers,
				history: s.history, tally: s.tally, ttl: s.ttl, durable: s.durable,
			}
			u.dice = chance.New(s.seed, uint64(u.number)+1)
			work.Go(func() { u.run(ctx) })
		}
	}
	return func() {
		cancel()
		work.Wait()
	}
}

// judge holds what happened against what may happen.
func (s *stage) judge(calm int64) result {
	model := aLock
	if !s.durable {
		model, calm = aToken, 0
	}
	r := result{counts: s.tally.counts, wrong: s.tally.wrong}
	r.wrong = append(r.wrong, s.history.violations(model, calm)...)
	for key, reg := range s.registers {
		if n := reg.lostWrites(); n != 0 {
			r.wrong = append(r.wrong, fmt.Sprintf("%s: %d writes were acknowledged and are lost", key, n))
		}
		r.stale += reg.refused
	}
	return r
}

// leftovers looks at what is on the server when all clients have gone: every key has
// an end, and every lock can be had within a TTL.
func (p plan) leftovers(ctx context.Context, admin *redis.Client, names []string) (wrong []string) {
	left, err := admin.Keys(ctx, "*").Result()
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range left {
		if ttl, err := admin.PTTL(ctx, key).Result(); err != nil || ttl == -1 {
			wrong = append(wrong, fmt.Sprintf("%q has no end: %v", key, err))
		}
	}
	c, err := p.client(admin.Options().Addr)
	if err != nil {
		return append(wrong, err.Error())
	}
	defer func() { _ = c.Close(ctx) }()
	ctx, cancel := context.WithTimeout(ctx, p.ttl+patience)
	defer cancel()
	for _, key := range names {
		if _, err := c.Mutex(key).Lock(ctx); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s cannot be had any more: %v", key, err))
		}
	}
	return wrong
}

// lacks names what a run did too little of. Such a run has shown nothing.
func (p plan) lacks(r result) []string {
	out := p.idle(r.counts)
	for _, f := range append(networkFaults(p.ttl), serverFaults()...) {
		out = p.floor(out, f.name, r.faults[f.name], 1)
	}
	return out
}

// idle names what users did too little of.
func (p plan) idle(counts map[string]int) (out []string) {
	out = p.floor(out, "granted", counts[string(granted)], 60)
	out = p.floor(out, "taken", counts[string(taken)], 10)
	out = p.floor(out, "unknown", counts[string(unknown)], 10)
	out = p.floor(out, "unlocked", counts[string(unlocked)], 20)
	out = p.floor(out, "lost", counts[string(lost)], 2)
	return p.floor(out, "write", counts["write"], 100)
}

// floor adds what was done less than so often in each round.
func (p plan) floor(out []string, what string, did, least int) []string {
	if did >= least*p.rounds {
		return out
	}
	return append(out, fmt.Sprintf("%s: %d, the floor is %d", what, did, least*p.rounds))
}

// kind names the server.
func (p plan) kind() string {
	if p.durable {
		return "durable"
	}
	return "forgetful"
}

// String names the run.
func (p plan) String() string { return fmt.Sprintf("%s, seed %d", p.kind(), p.seed) }
