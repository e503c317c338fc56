// The flag -proof: a holder is cut off, and a rival gets its lock.

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// prove shows twice what happens to a lock whose holder stops renewing it, once because it is
// cut off from the store, once because it is paused. A rival waits for the lock meanwhile. The
// proof fails if the rival has the lock while the holder still acts on it.
//
// With a server the holder is a process of its own. Without one there is no pause: holder
// and rival are clients of one store in this process.
func prove(ctx context.Context, c config, s *screen) (err error) {
	server, url, err := ownServer(ctx, c.store)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer server.remove()
	p := &proof{config: c, screen: s}
	c.store = url
	store, err := open(ctx, c)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer store.Disconnect()
	if p.rival, err = lock.New(store.Store, &lock.Options{Terms: lock.Terms{TTL: c.ttl}, Logger: silent}); err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, p.rival.Close(closing))
	}()
	faults := []string{cutOff, paused}
	start := func() (*peer, error) { return startHolder(url, os.Stderr) }
	if url == "" {
		faults = faults[:1]
		start = func() (*peer, error) { return startLocal(ctx, store), nil }
		s.line("Holder and rival are two clients in one process, on %s.", store.Name)
		s.line("For two processes, start a Redis server and add -store localhost:6379.")
	} else {
		s.line("Holder and rival are two processes, on\n%s.", store.Name)
	}
	s.line("The TTL of the lock is %v.", c.ttl)
	for _, fault := range faults {
		if err := p.run(ctx, fault, start); err != nil {
			return interruptedOr(ctx, err)
		}
	}
	s.line("\nthe holder never acted on the lock after the rival had it")
	return nil
}

// interruptedOr returns errInterrupted if a signal has ended ctx, otherwise err.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// The faults of a proof.
const (
	cutOff = "cut off"
	paused = "paused"
)

// proof is the state of a proof.
type proof struct {
	config
	screen *screen
	rival  *lock.Client
	start  time.Time // of the current time line
}

// run shows the time line of one fault.
func (p *proof) run(ctx context.Context, fault string, start func() (*peer, error)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*p.ttl+10*time.Second)
	defer cancel()
	p.screen.line("\nThe holder is %s:", fault)
	holder, err := start()
	if err != nil {
		return fmt.Errorf("start the holder: %w", err)
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	key := proofKey(fault)
	if err := holder.send("lock %s %d", key, p.ttl.Milliseconds()); err != nil {
		return err
	}
	has, err := holder.wait(ctx, "has")
	if err != nil {
		return err
	}
	p.start = has.at
	p.event(has.at, "holder", "has the lock, token %d", has.value)

	type result struct {
		held *lock.Held
		at   time.Time
		err  error
	}
	got := make(chan result, 1)
	locking, stopLocking := context.WithCancel(ctx)
	waiting := time.Now()
	renewing, endRenewing := context.WithCancelCause(ctx)
	defer endRenewing(nil)
	go func() {
		held, err := p.rival.Mutex(key).Lock(locking)
		got <- result{held, time.Now(), err}
		endRenewing(errors.Join(errors.New("the rival did not wait for the holder"), err))
	}()
	received := false
	defer func() {
		stopLocking()
		if !received {
			<-got // the client releases a lock that comes after all
		}
	}()
	p.event(waiting, "rival", "waits for the lock")
	// The holder renews the lock for longer than its TTL. The fault follows a renewal at once, so that no other
	// one comes between.
	renewed, err := holder.waitAfter(renewing, "renewed", has.at.Add(p.ttl))
	if err != nil {
		return err
	}
	if fault == cutOff {
		err = holder.send("cut")
	} else {
		err = holder.pause()
	}
	if err != nil {
		return err
	}
	end := renewed.at.Add(p.ttl)
	p.event(renewed.at, "holder", "renews the lock, until %.3f s", end.Sub(p.start).Seconds())
	p.event(time.Now(), "holder", "is now %s, and renews no more", fault)
	var notified message
	if fault == cutOff { // the message arrives before the rival has the lock
		if notified, err = holder.wait(ctx, "notified"); err != nil {
			return err
		}
		p.event(notified.at, "holder", "is notified that the lock is lost")
	}
	r := <-got
	received = true
	if r.err != nil {
		return fmt.Errorf("rival: %w", r.err)
	}
	defer func() { err = errors.Join(err, r.held.Unlock(context.WithoutCancel(ctx))) }()
	p.event(end, "store", "ends the lease, a TTL after the last renewal")
	p.event(r.at, "rival", "has the lock, token %d", r.held.Token())
	if fault == cutOff {
		return p.verdict(notified.at, r.at, "the holder's notice")
	}
	if err := holder.resume(); err != nil {
		return err
	}
	p.event(time.Now(), "holder", "is continued")
	if notified, err = holder.wait(ctx, "notified"); err != nil {
		return err
	}
	invalid, err := holder.wait(ctx, "invalid")
	if err != nil {
		return err
	}
	last, err := holder.wait(ctx, "last")
	if err != nil {
		return err
	}
	p.event(invalid.at, "holder", "sees at its next step that Valid() is false")
	p.event(notified.at, "holder", "is notified that the lock is lost")
	return p.verdict(last.at, r.at, "the holder's last step")
}

// event prints one line of the time line.
func (p *proof) event(at time.Time, who, format string, args ...any) {
	p.screen.line("  %7.3f s  %-7s %s", at.Sub(p.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// verdict prints the margin between the last instant of the holder and the first of the rival.
// It returns an error if they overlap.
func (p *proof) verdict(holder, rival time.Time, what string) error {
	margin := rival.Sub(holder)
	if margin <= 0 {
		return fmt.Errorf("the rival had the lock %v before %s", -margin, what)
	}
	p.screen.line("  margin %v from %s to the rival's lock", margin.Round(time.Millisecond), what)
	return nil
}
