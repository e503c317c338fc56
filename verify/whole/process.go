package whole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/part"
	"github.com/leasewheel/leasewheel/verify/still"
	"github.com/leasewheel/leasewheel/wheel"
)

// process is one client of the server, with its engine and its users.
type process struct {
	world  *world
	id     int
	plan   processPlan
	gate   *still.Gate
	links  []*link
	client *lock.Client
	store  *driver
	end    func() // closes what the client does not

	// The world's mu guards what follows.
	failedAt      time.Time // the latest failure, where they come one at a time
	closed        bool      // Close has begun
	crashed       bool
	locking       int       // calls of Lock and TryLock under way
	returnedAt    time.Time // the latest that a Multi was given up
	tally         part.Tally
	lateAnswersTo map[string]bool // owners whose release got no answer
}

func newProcess(w *world, id int, plan processPlan) (*process, error) {
	p := &process{
		world: w, id: id, plan: plan,
		gate:          still.NewGate(chance.Mix(w.plan.seed, 9, uint64(id))),
		lateAnswersTo: map[string]bool{},
	}
	store, closeClients, err := p.open()
	if err != nil {
		return nil, err
	}
	p.store = &driver{Store: store, process: p}
	engine, closeEngine, err := p.engine()
	if err != nil {
		return nil, err
	}
	p.end = func() {
		closeEngine()
		closeClients()
	}
	options := plan.renewal
	options.Hooks = &renewal.Hooks{BatchDone: p.batchDone, Lost: p.lost}
	p.client, err = lock.New(p.store, &lock.Options{
		Terms:     lock.Terms{TTL: plan.ttl},
		Scheduler: engine,
		Renewal:   options,
		Logger:    slog.New(slog.DiscardHandler),

		LocalHandovers: plan.handovers,
	})
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", id, err)
	}
	chance.Settle(p.client, chance.New(w.plan.seed, 2, uint64(id)).Float64())
	return p, nil
}

// open returns the store of the process: that of a server, or a quorum of several.
func (p *process) open() (store lock.Store, end func(), err error) {
	var stores []lock.Store
	var clients []*redis.Client
	for _, s := range p.world.servers {
		k := &link{process: p, server: s, numbers: map[string]int{}}
		p.links = append(p.links, k)
		rdb := redis.NewClient(&redis.Options{
			Addr:                     "127.0.0.1:" + strconv.Itoa(s.id+1), // a name would be looked up
			Dialer:                   k.dial,
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		one, err := redisstore.New(rdb, nil)
		if err != nil {
			return nil, nil, err
		}
		stores, clients = append(stores, one), append(clients, rdb)
	}
	end = func() {
		for _, rdb := range clients {
			_ = rdb.Close() // nothing went over it
		}
	}
	if len(stores) == 1 {
		return stores[0], end, nil
	}
	store, err = lock.Quorum(stores...)
	return store, end, err
}

func (p *process) engine() (engine schedule.Scheduler, end func(), err error) {
	if p.plan.heap {
		s, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return nil, nil, err
		}
		return p.gate.Engine(s), func() { s.Close() }, nil
	}
	s, err := wheel.New(&wheel.Options{Tick: p.plan.tick})
	if err != nil {
		return nil, nil, err
	}
	return p.gate.TickingEngine(s, p.plan.tick), func() { s.Close() }, nil
}

// driver is the real store of a process, with a watcher at its door.
type driver struct {
	lock.Store
	process *process
}

var (
	_ lock.Waiter               = (*driver)(nil)
	_ lock.Inspector            = (*driver)(nil)
	_ renewal.Laner[lock.Lease] = (*driver)(nil)
)

// Acquire implements lock.Store.
func (d *driver) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	d.process.owns(r.Owner)
	sent := time.Now()
	lease, err := d.Store.Acquire(ctx, r)
	d.process.gate.Pass(chance.Digest(serial(r.Owner)))
	if err == nil {
		if !lease.Sent.IsZero() {
			sent = lease.Sent
		}
		d.process.world.confirmed(ctx, lease, sent)
	}
	return lease, err
}

// Wait implements lock.Waiter.
func (d *driver) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	d.process.owns(r.Owner)
	waiter, ok := d.Store.(lock.Waiter)
	if !ok {
		return lock.Lease{}, errors.ErrUnsupported
	}
	lease, err := waiter.Wait(ctx, r)
	d.process.gate.Pass(chance.Digest(serial(r.Owner)))
	if err == nil {
		d.process.world.confirmed(ctx, lease, lease.Sent)
	}
	return lease, err
}

// Inspect implements lock.Inspector.
func (d *driver) Inspect(ctx context.Context, key string) (lock.Info, error) {
	return d.Store.(lock.Inspector).Inspect(ctx, key)
}

// ForceRelease implements lock.Inspector.
func (d *driver) ForceRelease(ctx context.Context, key string) error {
	return d.Store.(lock.Inspector).ForceRelease(ctx, key)
}

// Lane implements renewal.Laner.
func (d *driver) Lane(l lock.Lease) int {
	if laner, ok := d.Store.(renewal.Laner[lock.Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

// Close implements io.Closer.
func (d *driver) Close() error { return d.Store.(io.Closer).Close() }

// Renew implements lock.Store.
func (d *driver) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	sent := time.Now()
	d.process.gate.Pass(chance.Digest(serial(batch[0].Owner)))
	tenures := d.process.world.renewing(ctx, d.process, batch, sent)
	err := d.Store.Renew(ctx, batch, out)
	d.process.gate.Pass(chance.Digest(serial(batch[0].Owner)))
	d.process.world.renewed(ctx, d.process, tenures, out, sent)
	return err
}

// Release implements lock.Store.
func (d *driver) Release(ctx context.Context, l lock.Lease) error {
	err := d.Store.Release(ctx, l)
	w := d.process.world
	w.mu.Lock()
	defer w.mu.Unlock()
	d.process.lateAnswersTo[l.Owner] = err != nil && !errors.Is(err, lock.ErrNotHeld)
	return err
}

// owns notes whose an owner is.
func (p *process) owns(owner string) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[owner] = p
}
