// The backend: Redis servers, and its methods for the simulator.

package full

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// backend is the Redis servers, and the network between them and the clients. World.Mu guards
// its fields.
type backend struct {
	*sim.World
	plan      plan
	overrides *overrides // nil: the seed decides the fates of messages
	procs     []*process

	servers   []*server
	conns     []*conn // open connections
	freeSince map[string]time.Time
	tags      map[string]string   // tag in signals → owner
	overheard map[string][]string // the latest signals of each channel
	published map[string]int      // owner → the number of signals to it
}

// process is the backend's part of a client process. World.Mu guards its fields.
type process struct {
	*sim.Process
	backend  *backend
	links    []*link
	slowFrom time.Duration

	failedAt  time.Time // the latest failure in a class of single failures
	blocked   int       // the number of dials and hooks that have blocked
	slowUntil time.Time // dialers and hooks of the user block until then
}

// simulate plays a schedule. It must be called in a bubble.
func simulate(seed uint64, trace func(string)) sim.Result {
	return newBackend(newPlan(seed), trace).Play()
}

func newBackend(p plan, trace func(string)) *backend {
	b := &backend{
		World: sim.NewWorld(p.Plan, trace), plan: p,
		freeSince: map[string]time.Time{}, tags: map[string]string{},
		overheard: map[string][]string{}, published: map[string]int{},
	}
	b.Backend = b
	for id, rate := range p.rates {
		s, err := newServer(id, b.Start, rate)
		if err != nil {
			panic(err)
		}
		b.servers = append(b.servers, s)
	}
	for _, key := range p.Names() {
		b.freeSince[key] = b.Start
	}
	return b
}

// Open returns the store of a server, or a quorum of several.
func (b *backend) Open(one *sim.Process) (store driver.Store, end func(), err error) {
	plan := b.plan.procs[one.ID]
	p := &process{Process: one, backend: b, slowFrom: plan.slowFrom}
	b.procs = append(b.procs, p)
	var stores []driver.Store
	var clients []*redis.Client
	for _, s := range b.servers {
		k := &link{process: p, server: s, numbers: map[string]int{}}
		p.links = append(p.links, k)
		options := &redis.Options{
			Addr:                     "127.0.0.1:" + strconv.Itoa(s.id+1), // a host name would need a lookup
			Dialer:                   k.dial,
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if b.plan.class == slowDialers {
			options.OnConnect = k.onConnect
			options.CredentialsProviderContext = k.credentials
		}
		rdb := redis.NewClient(options)
		store, err := redisstore.New(rdb, &plan.store)
		if err != nil {
			return nil, nil, err
		}
		stores, clients = append(stores, store), append(clients, rdb)
	}
	end = func() {
		for _, rdb := range clients {
			_ = rdb.Close() // the store does not use rdb itself
		}
	}
	if len(stores) == 1 {
		return stores[0], end, nil
	}
	store, err = quorumstore.New(stores...)
	return store, end, err
}

// Turn lets a user do a random operation on one of the locks.
func (b *backend) Turn(u *sim.User) {
	key := simrand.Pick(u.Rand, b.plan.Names()...)
	wait := u.Rand.Chance(700)
	exclusive := !slices.Contains(b.plan.Shared, key)
	switch n := u.Rand.IntN(10); {
	case exclusive && n < 2:
		u.Reenter(key, wait)
	case exclusive && n < 4 && len(b.plan.Keys) > 1:
		u.TakeTwo(key, wait)
	case key == sim.RWName && n < 3:
		u.Downgrade(wait)
	default:
		u.Take(key, wait)
	}
}

func (b *backend) Confirmed(g *sim.Grant) { g.Attempt = b.newestAttempt(g) }

// Excused reports whether the server was out of memory, unless the call was in the queue before.
func (b *backend) Excused(call *sim.Call, err error) bool {
	const queues = 200 * time.Millisecond // the time to enter the queue
	if b.plan.class != noMemory || !strings.Contains(err.Error(), "OOM") {
		return false
	}
	excused := call.Queued.IsZero() || call.Queued.Add(queues).After(b.servers[0].fullSince)
	if excused {
		b.Counts.Operations["refused for memory"]++
	}
	return excused
}

func (b *backend) Snapshot() {
	for _, s := range b.servers {
		s.remember()
	}
}

func (b *backend) Leases(key string) (all []sim.Lease) {
	for _, l := range b.servers[0].holders(key) {
		all = append(all, sim.Lease{Grant: b.Grants[b.idOf(key, l.owner, l.token)], Left: l.left})
	}
	return all
}

func (b *backend) Heal() {
	b.plan.net = odds{}
	for _, s := range b.servers {
		s.until = time.Time{}
		if !time.Now().Before(s.away) {
			s.down = time.Time{}
		}
	}
	for _, p := range b.procs {
		p.slowUntil = time.Time{}
		if !p.Crashed {
			for _, k := range p.links {
				k.cutTo, k.cutFrom = time.Time{}, time.Time{}
			}
		}
	}
}

// behind returns how much longer leases last because the servers' clocks were set back.
func (b *backend) behind() time.Duration {
	return time.Duration(b.Counts.Faults[string(serverBack)]) * b.plan.TTL * 3 / 2
}

func (b *backend) ServeWithin() time.Duration {
	longest := 2 * b.plan.TTL // the longest lease
	return longest + longest/10 + 2*b.plan.TTL + place(longest) + b.Plan.LongestHold() + 10*time.Second + b.behind()
}

func (b *backend) Disconnect() {
	for _, s := range b.servers {
		b.kill(s, false)
	}
}

// tokenMemory is how long the server keeps the last token of a lock, according to
// docs/SAFETY.md.
const tokenMemory = 10 * time.Minute

// CheckLeft waits for a TTL first, because the last request may have
// been an abandoned acquire. Then no lock may be held, and no key may remain when the tokens
// have expired.
func (b *backend) CheckLeft() {
	longest := 4 * 2 * b.plan.TTL // the longest expiry of records and queues
	time.Sleep(longest + longest/50)
	b.Mu.Lock()
	b.Check("left")
	all, endless := b.left()
	for _, key := range all {
		if !strings.HasSuffix(key, ":t") && !strings.Contains(key, ":x:") && b.plan.class != clocks {
			b.Violated("left", "L2, L4: a TTL after all clients were closed, the server has %q", key)
		}
	}
	if len(endless) > 0 {
		b.Violated("left", "L2: keys without an expiry: %q", endless)
	}
	b.Mu.Unlock()
	time.Sleep(tokenMemory + tokenMemory/50 + b.behind())
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if all, _ := b.left(); len(all) > 0 {
		b.Violated("left", "L4: after the expiry of all tokens, the server has %q", all)
	}
}

// left returns the keys on the servers, and those without an expiry.
func (b *backend) left() (all, endless []string) {
	for _, s := range b.servers {
		keys, eternal := s.left()
		all, endless = append(all, keys...), append(endless, eternal...)
	}
	return all, endless
}
