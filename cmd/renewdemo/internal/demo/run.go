// A run of the demo in the terminal.

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// demo is the state of a run.
type demo struct {
	config
	screen      *screen
	engine      schedule.Scheduler
	closeEngine func()
	client      *lock.Client
	prefix      string // of all keys of this run
	held        []*lock.Held
}

// silent is the logger of all clients, because the demo shows the losses itself.
var silent = slog.New(slog.DiscardHandler)

// newDemo creates a demo with its engine, which the caller closes, and its client. A wheel is the client's
// own if tick is 0.
func newDemo(store driver.Store, c config, s *screen, tick time.Duration, hooks *lock.Hooks) (*demo, error) {
	d := &demo{config: c, screen: s, closeEngine: func() {}, prefix: fmt.Sprintf("renewdemo:%08x:", rand.Uint32())}
	var err error
	switch {
	case c.engine == "heap":
		var heap *heapqueue.Scheduler
		if heap, err = heapqueue.NewScheduler(nil); err != nil {
			return nil, err
		}
		d.engine, d.closeEngine = heap, func() { heap.Close() }
	case tick > 0:
		var w *wheel.Wheel
		if w, err = wheel.New(&wheel.Options{Tick: max(tick, time.Millisecond), Buckets: 256}); err != nil {
			return nil, err
		}
		d.engine, d.closeEngine = w, func() { w.Close() }
	}
	d.client, err = lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: d.ttl}, Scheduler: d.engine, Logger: silent, Hooks: hooks,
	})
	if err != nil {
		d.closeEngine()
	}
	return d, err
}

// keyOf returns the key of the lock with the given number.
func (d *demo) keyOf(i int) string { return d.prefix + strconv.Itoa(i) }

func run(ctx context.Context, c config, s *screen) error {
	b, err := open(ctx, c)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer b.Disconnect()
	return runOn(ctx, b, c, s)
}

// runOn holds the leases, and returns an error if one is lost.
func runOn(ctx context.Context, b *backend, c config, s *screen) error {
	d, err := newDemo(b.Store, c, s, 0, nil)
	if err != nil {
		return err
	}
	defer d.closeEngine()
	s.line("%s leases with a TTL of %v on %s,\nrenewed every %v by the %s engine, for %v",
		count(c.leases), c.ttl, b.Name, c.ttl/3, c.engine, c.length)
	err = d.acquire(ctx)
	if err == nil {
		err = d.hold(ctx)
	}
	if errors.Is(err, errInterrupted) {
		return d.releaseInterrupted(ctx)
	}
	stats := d.client.Stats().Renewal
	s.line("\nheld %s of %s leases to the end", count(stats.Held), count(c.leases))
	s.line("%s renewals in %s batches of %.0f leases\nsent late by %v (median), %v (99th percentile)",
		count(int(stats.Renewed)), count(int(stats.Batches)), float64(stats.Renewed+stats.Unknown)/float64(max(stats.Batches, 1)),
		round(stats.Late.Quantile(0.5)), round(stats.Late.Quantile(0.99)))
	err = errors.Join(err, d.release(ctx))
	switch {
	case err != nil: // the run is incomplete
		return err
	case stats.Lost() > 0:
		return fmt.Errorf("%d leases were lost: the store denied %d, failed for %d, and %d ended at their deadline",
			stats.Lost(), stats.NotOwned, stats.Failed, stats.Expired)
	}
	s.line("no lease was lost")
	return nil
}

// hold shows the leases until the time is over or all of them are lost.
func (d *demo) hold(ctx context.Context) error {
	m := newMeter(d)
	ticker := time.NewTicker(showInterval)
	defer ticker.Stop()
	end := time.After(d.length)
	for {
		select {
		case <-ctx.Done():
			return errInterrupted
		case <-ticker.C:
			m.show()
			if d.client.Stats().Renewal.Held > 0 {
				continue
			}
		case <-end:
		}
		return nil
	}
}
