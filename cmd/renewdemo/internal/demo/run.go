// A run of the demo.

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// demo is the state of a run.
type demo struct {
	config
	screen *screen
	store  *faultStore
	client *lock.Client
	prefix string // of all keys of this run
	held   []*lock.Held
	stolen map[string]bool
	paused pauseResult

	mu     sync.Mutex // guards losses
	losses map[string]loss

	lossAdded chan struct{} // has a value after a loss was recorded
}

// loss records why and when a holder was notified of a loss.
type loss struct {
	reason renewal.Reason
	at     time.Time
}

func run(ctx context.Context, c config, s *screen) error {
	b, err := open(ctx, c)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			b.Disconnect()
		}
		return errInterrupted
	case err != nil:
		return err
	}
	defer b.Disconnect()
	return runOn(ctx, b, c, s)
}

// runOn holds the leases, injects the fault, and returns an error if the result is not the
// expected one.
func runOn(ctx context.Context, b *backend, c config, s *screen) error {
	d := &demo{
		config: c, screen: s, store: newFaultStore(b, c),
		prefix: fmt.Sprintf("renewdemo:%08x:", rand.Uint32()),
		stolen: map[string]bool{}, losses: map[string]loss{}, lossAdded: make(chan struct{}, 1),
	}
	var engine schedule.Scheduler // by default the client has a wheel of its own
	if c.engine == "heap" {
		heap, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return err
		}
		defer heap.Close()
		engine = heap
	}
	if err := d.connect(engine, &lock.Hooks{Lost: d.lost}); err != nil {
		return err
	}
	s.line("%s leases with a TTL of %v on %s,\nrenewed every %v by the %s engine, for %v",
		count(c.leases), c.ttl, b.Name, c.ttl/3, c.engine, c.length)

	err := d.acquire(ctx)
	if err == nil {
		err = d.hold(ctx)
	}
	if errors.Is(err, errInterrupted) {
		return d.releaseInterrupted(ctx)
	}
	summary := d.summary()
	if errClose := d.release(ctx); errClose != nil {
		err = errors.Join(err, errClose)
	}
	s.line("%s", summary)
	if err != nil { // the run is incomplete, so there is nothing to check
		return err
	}
	d.awaitLosses()
	return d.check()
}

// releaseInterrupted releases all locks after a signal, and returns an error that says so.
func (d *demo) releaseInterrupted(ctx context.Context) error {
	err := d.release(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return fmt.Errorf("%w: released %s leases", errInterrupted, count(d.store.released()))
}

// silent is the logger of all clients, because the demo shows the losses itself.
var silent = slog.New(slog.DiscardHandler)

// connect creates the client.
func (d *demo) connect(engine schedule.Scheduler, hooks *lock.Hooks) (err error) {
	d.client, err = lock.New(d.store, &lock.Options{
		Terms:     lock.Terms{TTL: d.ttl},
		Scheduler: engine,
		Logger:    silent,
		Hooks:     hooks,
	})
	return err
}

// lost is the hook that records each loss.
func (d *demo) lost(_ context.Context, info lock.HookInfo) {
	d.mu.Lock()
	d.losses[info.Key] = loss{lossOf(info).Reason, time.Now()}
	d.mu.Unlock()
	select {
	case d.lossAdded <- struct{}{}:
	default:
	}
}

// lossOf returns the loss that a hook is called for.
func lossOf(info lock.HookInfo) *renewal.LostError {
	lost, _ := errors.AsType[*renewal.LostError](info.Err)
	return lost
}

// awaitLosses waits until the hook was called for every loss, at most ten seconds. The client
// counts a loss before it calls the hook, and its Close does not wait for hooks.
func (d *demo) awaitLosses() {
	timeout := time.After(10 * time.Second)
	for {
		d.mu.Lock()
		recorded := len(d.losses)
		d.mu.Unlock()
		if uint64(recorded) >= d.client.Stats().Renewal.Lost() {
			return
		}
		select {
		case <-d.lossAdded:
		case <-timeout:
			return
		}
	}
}

// hold shows the leases until the time is over or all of them are lost. The fault starts after
// a third of the time.
func (d *demo) hold(ctx context.Context) error {
	m := newMeter(d)
	ticker := time.NewTicker(showInterval)
	defer ticker.Stop()
	fault := time.After(d.length / 3)
	if d.fault == "" {
		fault = nil
	}
	end := time.After(d.length)
	for {
		select {
		case <-ctx.Done():
			return errInterrupted
		case <-fault:
			if err := d.injectFault(ctx); err != nil {
				return err
			}
			if d.fault == "pause" { // all leases have ended, and their holders are notified next
				end = time.After(d.ttl)
			}
			continue
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

// injectFault starts the fault.
func (d *demo) injectFault(ctx context.Context) error {
	d.screen.line("fault: %s", d.fault)
	switch d.fault {
	case "steal":
		var keys []string
		for _, i := range rand.Perm(d.leases)[:d.steal] {
			key := d.held[i].Key()
			d.stolen[key] = true
			keys = append(keys, key)
		}
		return d.store.Delete(ctx, keys)
	case "pause":
		return d.pauseProcess()
	default:
		d.store.startFault()
		return nil
	}
}
