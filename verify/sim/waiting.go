package sim

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// waitingDriver is a driver that waits in the queue of the server.
type waitingDriver struct{ *driver }

// waiting is one call of Wait. What it relies on are its own requests that were
// answered; a signal is a hint, and its token tells whether it is fresh.
type waiting struct {
	driver *driver
	r      lock.Request
	ear    chan uint64
	polled chan polled

	anchor     time.Time // the latest request that was answered "taken" was sent then
	mark       uint64    // no grant after that answer has a lower token
	polling    bool
	unanswered bool
	failures   int
}

type polled struct {
	answer
	sent time.Time
	err  error
}

const retryAfter = 10 * time.Millisecond

// Wait implements lock.Waiter.
func (d waitingDriver) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	w := &waiting{driver: d.driver, r: r, anchor: time.Now(), polled: make(chan polled, 1)}
	w.ear = d.listen(r.Owner)
	defer d.silence(r.Owner)
	lease, err := w.wait(ctx)
	lease.Unanswered = w.unanswered || w.polling
	d.process.gate.Pass(chance.Digest(serial(r.Owner)))
	return lease, err
}

func (w *waiting) wait(ctx context.Context) (lock.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var done bool
		var lease lock.Lease
		var err error
		select {
		case <-ctx.Done():
			return lock.Lease{}, context.Cause(ctx)
		case <-w.driver.closing:
			return lock.Lease{}, lock.ErrClosed
		case token := <-w.ear:
			lease, done = w.signalled(token)
			if !done {
				w.poll(ctx)
			}
		case <-timer.C:
			w.poll(ctx)
		case p := <-w.polled:
			w.polling = false
			var again time.Duration
			lease, again, err = w.answered(p)
			done = again == 0
			timer.Reset(again)
		}
		if done || err != nil {
			return lease, err
		}
	}
}

// poll asks in the background, for a signal may come first.
func (w *waiting) poll(ctx context.Context) {
	if w.polling {
		return
	}
	w.polling = true
	d := w.driver
	d.process.world.traveling.Go(func() {
		a, sent, err := d.ask(ctx, "wait", w.r, d.process.world.plan.place)
		w.polled <- polled{a, sent, err}
	})
}

// answered returns the lease, when to ask again, or an error.
func (w *waiting) answered(p polled) (lock.Lease, time.Duration, error) {
	place := w.driver.process.world.plan.place
	switch {
	case p.err != nil:
		w.unanswered = true
		w.failures++
		if w.failures > 1 && (w.mark == 0 || time.Since(w.anchor) > place) {
			return lock.Lease{}, 0, p.err
		}
		return lock.Lease{}, max(retryAfter, place/12), nil
	case p.verdict == granted:
		return w.lease(p.token, p.sent, p.sent), 0, nil
	case p.verdict == refused:
		return lock.Lease{}, 0, errGivenUp
	}
	w.failures, w.anchor, w.mark = 0, p.sent, max(w.mark, p.token)
	again := place / 3
	if p.head {
		again = min(again, p.expiresIn+2*time.Millisecond)
	}
	return lock.Lease{}, again, nil
}

// signalled returns the lease that a signal tells of, unless it is stale or too
// little of it is left.
func (w *waiting) signalled(token uint64) (lock.Lease, bool) {
	place := w.driver.process.world.plan.place
	if token <= w.mark || time.Since(w.anchor) > place/2 {
		return lock.Lease{}, false
	}
	w.driver.process.world.count(w.driver.process.world.counts.Operations, "hand-over")
	return w.lease(token, w.anchor.Add(place-w.r.TTL), w.anchor), true
}

func (w *waiting) lease(token uint64, sent, asked time.Time) lock.Lease {
	w.driver.process.world.confirmed(w.r.Key, token, sent, asked)
	return lock.Lease{Request: w.r, Token: token, Sent: sent}
}

func (d *driver) listen(owner string) chan uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	ear := make(chan uint64, 1)
	d.ears[owner] = ear
	return ear
}

func (d *driver) silence(owner string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ears, owner)
}

// hear delivers a signal.
func (d *driver) hear(owner string, token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.ears[owner] <- token:
	default: // nobody listens, or has heard one already
	}
}
