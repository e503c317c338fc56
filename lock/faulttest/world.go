// One schedule: the store, the process under test, its rival, and what happens.

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	life     = 5 * time.Minute // until the ctx of a function ends
	grace    = 5 * time.Minute // from then until the function has returned
	lifetime = time.Hour       // of a rival that keeps the lock
)

var errFault = errors.New("faulttest: a fault of the schedule")

// world is a schedule.
type world struct {
	store  *memstore.Store
	faults []fault
	fenced bool
	client *lock.Client // of the function
	rival  *lock.Client
	cancel context.CancelFunc // of the function

	mu      sync.Mutex // guards the fields below
	start   time.Time
	out     outcome
	over    bool                // no more faults
	down    time.Time           // until when the store fails
	stopped time.Time           // until when the process is stopped
	losing  map[locktest.Op]int // answers to be lost
	key     string              // of the latest request
	leases  []*lease
	highest map[string]uint64 // tokens of writes under a key, and under "" of all
	rivals  sync.WaitGroup
}

// lease is a grant to the client of the function.
type lease struct {
	driver.Lease
	usable   bool      // the client has got the answer
	reads    bool      // the client has it as a reader
	expires  time.Time // on the server
	renewed  time.Time // when the server last did it
	unlocked time.Time // when the client has sent its release
	taken    time.Time // when it was taken away
	told     time.Time // when a renewal has reported it to the client
}

// endedBy returns when a lease has ended, zero if it has not. What was taken away ends when the
// holder is notified, and for fenced writes at once.
func (l *lease) endedBy(now time.Time, fenced bool) time.Time {
	var end time.Time
	for _, at := range []time.Time{l.expires, l.unlocked, l.told, l.taken} {
		if at.IsZero() || !now.After(at) || at.Equal(l.taken) && !fenced && !at.Equal(l.told) {
			continue
		}
		if end.IsZero() || at.Before(end) {
			end = at
		}
	}
	return end
}

// play plays a schedule.
func play(t *testing.T, faults []fault, fenced bool, work function) (o outcome) {
	t.Helper()
	w := &world{faults: faults, fenced: fenced, losing: map[locktest.Op]int{}, highest: map[string]uint64{}}
	bubble := ""
	defer func() {
		// Goroutines of the function are left, but blocked for ever: the clock of a bubble stops with its test.
		if r := recover(); r != nil {
			w.wrong("your function has left a goroutine behind, which still runs %v after its return%s", grace, startOf(bubble))
			o = w.out
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		bubble = inBubble.FindString(stack(false))
		w.play(t, work)
	})
	return w.out
}

// inBubble matches a part of the first line of a goroutine's stack.
var inBubble = regexp.MustCompile(`synctest bubble \d+`)

// startedAt matches the place where a goroutine was started.
var startedAt = regexp.MustCompile(`(?m)^created by .*\n\t(.*):(\d+)`)

// stack returns the stack of this goroutine, or those of all.
func stack(all bool) string {
	buf := make([]byte, 1<<10)
	for {
		n := runtime.Stack(buf, all)
		if n < len(buf) || !all {
			return string(buf[:n])
		}
		buf = make([]byte, 2*len(buf))
	}
}

// startOf returns where a goroutine of a bubble was started, in brackets, or nothing.
func startOf(bubble string) string {
	for goroutine := range strings.SplitSeq(stack(true), "\n\n") {
		head, _, _ := strings.Cut(goroutine, "\n")
		if start := startedAt.FindStringSubmatch(goroutine); start != nil && inBubble.FindString(head) == bubble {
			line, _ := strconv.Atoi(start[2])
			return " (started at " + place(start[1], line) + ")"
		}
	}
	return ""
}

func (w *world) play(t *testing.T, work function) {
	w.start = time.Now()
	w.store = memstore.New()
	options := &lock.Options{Terms: lock.Terms{TTL: ttl}, Logger: slog.New(slog.DiscardHandler)}
	var err, errRival error
	simrand.WithPhase(0, func() {
		w.client, err = lock.New(w.connection(), options)
		w.rival, errRival = lock.New(unclosed{w.store}, options)
	})
	if err = errors.Join(err, errRival); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := errNotReturned
		defer func() {
			w.checkEnd(recover(), err)
			done <- err
		}()
		err = work(ctx, w.client, &Resource{w: w})
	}()

	returned := w.await(ctx, done)
	time.Sleep(3 * w.longest()) // a lock that is held is renewed by then
	w.mu.Lock()
	w.checkLeftBehind(returned)
	w.mu.Unlock()
	_ = w.client.Close(context.Background())
	_ = w.rival.Close(context.Background())
	w.rivals.Wait()
	cancel()
	time.Sleep(grace) // the goroutines of the function may end, and write
}

// longest returns the longest TTL of the function.
func (w *world) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := ttl
	for _, l := range w.leases {
		longest = max(longest, l.TTL)
	}
	return min(longest, time.Hour)
}

// await waits for the function, and for the end of the faults. It returns the instant.
func (w *world) await(ctx context.Context, done <-chan error) time.Time {
	returned := func(within time.Duration) bool {
		select {
		case w.out.err = <-done:
			return true
		case <-time.After(within):
			return false
		}
	}
	ended := false
	select {
	case w.out.err = <-done:
		ended = true
	case <-ctx.Done(): // a fault
		ended = returned(grace)
	case <-time.After(life):
		w.event("the ctx of the function ends")
		w.cancel()
		ended = returned(grace)
	}
	w.mu.Lock()
	w.over, w.down, w.stopped = true, time.Time{}, time.Time{}
	if !ended {
		where := "it does not heed its ctx"
		if w.client.Stats().Waiting > 0 {
			where = "it waits in Lock: give Lock a ctx that ends"
		}
		w.wrong("your function has not returned %v after its ctx has ended: %s", grace, where)
	}
	w.mu.Unlock()
	if !ended {
		_ = w.client.Close(context.Background()) // ends each Lock
		returned(grace)
	}
	w.event("the function returns: %v", w.out.err)
	return time.Now()
}

var errNotReturned = errors.New("faulttest: the function has not returned")

// checkEnd looks at how the goroutine of the function has ended.
func (w *world) checkEnd(panicked any, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case panicked != nil:
		w.wrong("your function panicked (%s): %v", panicsAt(), panicked)
	case errors.Is(err, errNotReturned):
		w.wrong("your function has called runtime.Goexit, as t.FailNow does: return an error")
	}
}

// panicsAt returns the file and line of the panic that is recovered.
func panicsAt() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for panicking, more := false, true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime {
			return place(frame.File, frame.Line)
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
	}
	return "unknown line"
}

// checkLeftBehind looks for leases that are renewed although the function has returned. The caller
// holds mu.
func (w *world) checkLeftBehind(returned time.Time) {
	for _, l := range w.leases {
		if l.usable && l.unlocked.IsZero() && l.taken.IsZero() && l.renewed.After(returned) {
			w.wrong("your function has returned and left the lock %q behind, which is still renewed: call Unlock on each path, or use lock.Do", l.Key)
			return
		}
	}
}

// wrong records the first mistake. The caller holds mu.
func (w *world) wrong(format string, args ...any) {
	if w.out.mistake == "" {
		w.out.mistake = fmt.Sprintf(format, args...)
	}
}

func (w *world) event(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.eventLocked(format, args...)
}

// eventLocked records an event until the first mistake. The caller holds mu.
func (w *world) eventLocked(format string, args ...any) {
	if w.out.mistake == "" {
		w.out.trace = append(w.out.trace, fmt.Sprintf("%9v  ", round(time.Since(w.start)))+fmt.Sprintf(format, args...))
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// point counts a call of the store or of the resource, and returns its fault, if there is one.
func (w *world) point() fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.out.points
	w.out.points++
	for _, f := range w.faults {
		if f.at == n && !w.over {
			return f
		}
	}
	return fault{kind: kinds} // none
}

// happen lets a fault happen that is not about a single call.
func (w *world) happen(f fault) {
	switch f.kind {
	case outage:
		w.event("the store fails for %v", round(f.d))
		w.mu.Lock()
		w.down = time.Now().Add(f.d)
		w.mu.Unlock()
	case stop:
		w.stopHere(f)
	case take:
		w.takeAway(f.d)
	case keep:
		w.takeAway(lifetime)
	case terminate:
		w.event("the ctx of the function ends")
		w.cancel()
	}
}

// stopHere stops the process. A rival may wait for its lock.
func (w *world) stopHere(f fault) {
	w.event("the process stops for %v", round(f.d))
	w.mu.Lock()
	w.stopped = time.Now().Add(f.d)
	key := w.key
	w.mu.Unlock()
	if f.flip && key != "" {
		w.rivals.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), f.d-time.Millisecond)
			defer cancel()
			if held, err := w.rival.Mutex(key).Lock(ctx); err == nil {
				w.rule(held, ttl/10)
			}
		})
	}
}

// awaitRunning returns when the process is not stopped.
func (w *world) awaitRunning() {
	for {
		w.mu.Lock()
		left := time.Until(w.stopped)
		w.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// takeAway takes the lock of the latest request away and gives it to the rival for d.
func (w *world) takeAway(d time.Duration) {
	w.mu.Lock()
	key := w.key
	w.mu.Unlock()
	if key == "" {
		return
	}
	w.event("the lock %q is taken away", key)
	w.store.Delete(key)
	w.mu.Lock()
	for _, l := range w.leases {
		if l.Key == key && l.taken.IsZero() && l.unlocked.IsZero() {
			l.taken = time.Now()
		}
	}
	w.mu.Unlock()
	if held, err := w.rival.Mutex(key).TryLock(context.Background()); err == nil {
		w.rivals.Go(func() { w.rule(held, d) })
	}
}

// rule holds the lock as the rival, which has written.
func (w *world) rule(held *lock.Held, d time.Duration) {
	w.event("a rival gets the lock %q with token %d and writes", held.Key(), held.Token())
	w.mu.Lock()
	w.writes(held.Key(), held.Token())
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-held.Done(): // the schedule ends
	}
	_ = held.Unlock(context.Background())
}

// unclosed is a store that stays open for others.
type unclosed struct{ *memstore.Store }

func (unclosed) Shutdown(context.Context) error { return nil }

// connection returns the store of the function: what the client sees, then faults, and inside of them the truth.
func (w *world) connection() driver.Store {
	faulty := (&locktest.Faulty{Before: w.before, After: w.after}).Over(driver.Wrap(unclosed{w.store}, w.execute))
	return driver.Wrap(faulty, w.ask)
}

// before is called before each request.
func (w *world) before(ctx context.Context, op locktest.Op) error {
	f := w.point()
	switch f.kind {
	case loseRequest:
		w.event("a request is lost: %s", op)
		return errFault
	case loseAnswer:
		w.mu.Lock()
		w.losing[op]++
		w.mu.Unlock()
	case hang:
		w.event("the store hangs: %s", op)
		_ = basic.Sleep(ctx, f.d)
		return errFault
	default:
		w.happen(f)
	}
	w.awaitRunning()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down.After(time.Now()) {
		return errFault
	}
	return nil
}

// after is called after each request.
func (w *world) after(_ context.Context, op locktest.Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.losing[op] == 0 {
		return nil
	}
	w.losing[op]--
	w.eventLocked("an answer is lost: %s", op)
	return errFault
}

// ask sees what the client asks and is answered.
func (w *world) ask(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	w.mu.Lock()
	switch locktest.Op(c.Name) {
	case locktest.Acquire, locktest.Wait:
		w.key = c.Key
	case locktest.Release:
		for _, released := range c.Leases {
			w.update(released.Owner, func(l *lease) {
				if l.unlocked.IsZero() {
					l.unlocked = time.Now()
					w.eventLocked("the lock %q is unlocked", l.Key)
				}
			})
		}
	}
	w.mu.Unlock()
	if err := next(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch locktest.Op(c.Name) {
	case locktest.Acquire, locktest.Wait:
		w.update(c.Granted.Owner, func(l *lease) {
			l.reads = c.Granted.Mode == driver.Read
			if !l.usable {
				l.usable = true
				w.eventLocked("the lock %q is acquired with token %d", l.Key, l.Token)
			}
		})
	case locktest.Renew:
		for i, outcome := range c.Outcomes {
			if outcome.IsLost() {
				w.update(c.Leases[i].Owner, func(l *lease) { l.told = time.Now() })
			}
		}
	}
	return nil
}

// update changes the leases of an owner. The caller holds mu.
func (w *world) update(owner string, change func(*lease)) {
	for _, l := range w.leases {
		if l.Owner == owner {
			change(l)
		}
	}
}

// execute sees what the store has executed, whether or not the client gets the answer.
func (w *world) execute(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	if err := next(ctx); err != nil {
		return err
	}
	switch locktest.Op(c.Name) {
	case locktest.Acquire, locktest.Wait:
		w.grant(c.Granted)
	case locktest.Renew:
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, asked := range c.Leases {
			if c.Outcomes != nil && c.Outcomes[i] != renewal.Renewed { // a Resume has no outcomes
				continue
			}
			w.update(asked.Owner, func(l *lease) {
				l.TTL, l.renewed = asked.TTL, time.Now()
				if end := l.renewed.Add(asked.TTL); end.After(l.expires) {
					l.expires = end
				}
			})
		}
	}
	return nil
}

func (w *world) grant(granted driver.Lease) {
	expires := time.Now().Add(w.store.ExpiresIn(granted.Key)) // a hand-over has less than a TTL
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.granted++
	known := false
	w.update(granted.Owner, func(l *lease) { l.Lease, l.expires, known = granted, expires, true })
	if !known {
		w.leases = append(w.leases, &lease{Lease: granted, expires: expires})
	}
}
