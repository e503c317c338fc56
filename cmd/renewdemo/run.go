package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// demo is one run.
type demo struct {
	config
	screen *screen
	store  *witness
	client *lock.Client
	prefix string // of the keys of this run
	held   []*lock.Held
	stolen map[string]bool
	began  time.Time

	mu     sync.Mutex // guards told
	told   map[string]loss
	losses atomic.Int64
}

// loss is what a holder was told, and when.
type loss struct {
	reason renewal.Reason
	at     time.Time
}

func run(ctx context.Context, c config, s *screen) error {
	b, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer b.close()
	return runOn(ctx, b, c, s)
}

// runOn holds the leases, lets the fault happen, and returns an error if a lease
// fared otherwise than it should.
func runOn(ctx context.Context, b *backend, c config, s *screen) error {
	d := &demo{
		config: c, screen: s, store: newWitness(b, c),
		prefix: fmt.Sprintf("renewdemo:%08x:", rand.Uint32()),
		stolen: map[string]bool{}, told: map[string]loss{},
	}
	closeEngine, err := d.connect()
	if err != nil {
		return err
	}
	defer closeEngine()
	s.line("%d leases of %v on %s, renewed each %v by the %s engine, for %v", c.leases, c.ttl, b.name, c.ttl/3, c.engine, c.length)

	err = d.acquire(ctx)
	if err == nil {
		err = d.hold(ctx)
	}
	summary := d.summary(err)
	s.line("releasing ...")
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if errClose := d.client.Close(closing); errClose != nil {
		err = errors.Join(err, errClose)
	}
	s.line("%s", summary)
	if err != nil { // it did not get to its end: there is nothing to prove
		return err
	}
	return d.verdict()
}

// connect makes the client and its engine.
func (d *demo) connect() (closeEngine func(), err error) {
	o := &lock.Options{
		Terms:   lock.Terms{TTL: d.ttl},
		Renewal: renewal.Options{Hooks: &renewal.Hooks{Lost: d.lost}},
	}
	closeEngine = func() {}
	if d.engine == "heap" { // the wheel is the client's own
		engine, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return nil, err
		}
		closeEngine = func() { engine.Close() }
		o.Scheduler = engine
	}
	if d.client, err = lock.New(d.store, o); err != nil {
		closeEngine()
		return nil, err
	}
	return closeEngine, nil
}

// lost is told of each loss, as soon as it has happened.
func (d *demo) lost(info renewal.LostInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told[info.Lease.(lock.Lease).Key] = loss{info.Err.Reason, time.Now()}
	d.losses.Add(1)
}

// acquire gets all locks, many at a time.
func (d *demo) acquire(ctx context.Context) error {
	const atATime = 64
	start := time.Now()
	d.held = make([]*lock.Held, d.leases)
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, atATime)
	for worker := range atATime {
		wg.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= d.leases {
					return
				}
				d.held[i], errs[worker] = d.client.Mutex(fmt.Sprint(d.prefix, i)).TryLock(ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	d.screen.line("acquired in %v", time.Since(start).Round(time.Millisecond))
	return nil
}

// hold shows the progress each second; a third into it the fault begins.
func (d *demo) hold(ctx context.Context) error {
	d.began = time.Now()
	meter := newMeter(ctx, d)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	fault := time.After(d.length / 3)
	if d.fault == "" {
		fault = nil
	}
	end := time.After(d.length)
	for {
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-fault:
			if err := d.begin(ctx); err != nil {
				return err
			}
		case <-ticker.C:
			meter.show()
			if d.client.Stats().Renewal.Held > 0 {
				continue
			}
			meter.finish(ctx) // there is nothing left to see
			return nil
		case <-end:
			meter.finish(ctx)
			return nil
		}
	}
}

// begin lets the fault happen.
func (d *demo) begin(ctx context.Context) error {
	d.screen.line("fault: %s", d.fault)
	d.store.begin()
	if d.fault != "steal" {
		return nil
	}
	var keys []string
	for _, i := range rand.Perm(d.leases)[:d.steal] {
		key := d.held[i].Key()
		d.stolen[key] = true
		keys = append(keys, key)
	}
	return d.store.delete(ctx, keys)
}
