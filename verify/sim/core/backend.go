// The backend: a server with leases in memory, and its methods for the simulator.

package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// backend is a server that keeps leases in memory, and the network between it and the
// clients. World.Mu guards its fields.
type backend struct {
	*sim.World
	plan      plan
	server    *server
	procs     []*process
	downUntil time.Time
	last      map[string]uint64 // key → the token granted last
	published map[string]int    // owner → the number of signals to it
	healed    atomic.Bool       // read without Mu
}

// process is the backend's part of a client process.
type process struct {
	*sim.Process
	backend *backend
	store   *store

	cutTo, cutFrom time.Time // a partition blocks requests until cutTo, and answers until cutFrom
}

// simulate plays a schedule. It must be called in a bubble.
func simulate(seed uint64, trace func(string)) sim.Result {
	p := newPlan(seed)
	b := &backend{World: sim.NewWorld(p.Plan, trace), plan: p, last: map[string]uint64{}, published: map[string]int{}}
	b.Backend = b
	b.server = newServer(b.Start, p.rate)
	b.server.granted, b.server.kept, b.server.signal = b.granted, b.kept, b.signal
	return b.Play()
}

func (b *backend) Open(p *sim.Process) (driver.Store, func(), error) {
	one := &process{Process: p, backend: b}
	one.store = newStore(one)
	b.procs = append(b.procs, one)
	return one.store, func() {}, nil
}

// Turn takes a lock, holds it and unlocks it.
func (b *backend) Turn(u *sim.User) {
	key := sim.KeyName(u.Rand.IntN(len(b.plan.Keys)))
	wait := u.Rand.Chance(700)
	patience := u.Patience()
	abandons := u.Rand.Chance(20)
	hold := u.HoldTime(4)
	g := u.Acquire("lock", u.Client.Mutex(key), key, wait, patience)
	if g == nil {
		return
	}
	held := g.Handle()
	var inner *lock.Held
	if u.Aside.Chance(300) {
		ctx, cancel := held.Context(context.Background())
		defer cancel()
		inner = u.LockAgain(ctx, u.Client.Reentrant(key), g)
	}
	u.Hold(g, hold)
	if inner != nil {
		u.UnlockInner(inner, g)
	}
	if !abandons || u.Plan.MaxHold == 0 { // otherwise MaxHold ends it
		u.Unlock(held, g)
	}
}

// granted records that the server granted a lock to an owner.
func (b *backend) granted(key, owner string, token uint64) {
	b.Check("token")
	if token <= b.last[key] {
		b.Violated("token", "S3: %s got token %d after %d", key, token, b.last[key])
	}
	b.last[key] = token
	b.Granted(&sim.Grant{GrantID: sim.GrantID{Key: key, Owner: owner, Token: token}, Process: b.Owners[owner], Mode: sim.Exclusive})
}

// kept records that the server renewed a lease to its full TTL.
func (b *backend) kept(key, owner string, token uint64) {
	if g := b.Grants[sim.GrantID{Key: key, Owner: owner, Token: token}]; g != nil {
		g.Void = false
	}
}

func (b *backend) Lasts(g *sim.Grant) time.Duration {
	held, ok := b.server.alive(g.Key)
	if !ok || held.owner != g.Owner || held.token != g.Token {
		return 0
	}
	return b.left(held)
}

func (b *backend) left(l lease) time.Duration {
	return time.Duration(float64(l.until-b.server.clock.now()) / b.plan.rate)
}

func (b *backend) Leases(key string) []sim.Lease {
	held, ok := b.server.alive(key)
	if !ok {
		return nil
	}
	return []sim.Lease{{Grant: b.Grants[sim.GrantID{Key: key, Owner: held.owner, Token: held.token}], Left: b.left(held)}}
}

func (b *backend) MayBeStale(*sim.Grant) bool    { return false }
func (b *backend) Confirmed(*sim.Grant)          {}
func (b *backend) Excused(*sim.Call, error) bool { return false }
func (b *backend) Probe()                        {}
func (b *backend) Disconnect()                   {}

func (b *backend) Snapshot() { b.server.remember() }

func (b *backend) Heal() {
	b.healed.Store(true)
	b.downUntil = time.Time{}
	for _, p := range b.procs {
		if !p.Crashed {
			p.cutTo, p.cutFrom = time.Time{}, time.Time{}
		}
	}
}

func (b *backend) ServeWithin() time.Duration {
	most := b.longest()
	return 2*b.plan.TTL + most + most/10 + b.plan.place + b.Plan.LongestHold() + 10*time.Second
}

func (b *backend) longest() (most time.Duration) {
	for _, p := range b.Procs {
		most = max(most, p.Plan.TTL)
	}
	return most
}

// CheckLeft waits for a TTL first, because the last request may have
// been an abandoned acquire.
func (b *backend) CheckLeft() {
	most := b.longest() + b.Plan.LongestHold()
	most += most / 50
	if b.plan.class == clocks { // the server's clock was set back
		most += b.plan.TTL * 3 / 2 * 64
	}
	time.Sleep(most)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Check("left")
	if locks, places := b.server.left(); locks+places > 0 {
		b.Violated("left", "L2, L4: a TTL after all clients were closed, the server has %d locks, %d places", locks, places)
	}
}

// signal sends a signal to the process of an owner. World.Mu is held.
func (b *backend) signal(owner string, token uint64) {
	p := b.procs[b.Owners[owner].ID]
	b.published[owner]++
	name := simrand.Hash(b.Names.Of(owner))
	d := simrand.New(b.plan.Seed, 6, uint64(p.ID), name, uint64(b.published[owner]))
	delay := d.Between(50*time.Microsecond, 5*time.Millisecond)
	cut := time.Now().Before(p.cutFrom)
	switch lossy := !b.plan.Lossless; {
	case cut || lossy && d.Chance(100):
		b.Counts.Faults["lost signal"]++
		return
	case lossy && d.Chance(100):
		b.Counts.Faults["late signal"]++
		delay = d.UpTo(2 * b.plan.TTL)
	}
	b.After(delay, func() {
		p.Pauser.Await(name)
		p.store.deliver(owner, token)
	})
}
