// The calls of one client that wait for the same key.

package lock

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// localQueues order the calls of Lock of one client: one queue for each key and family of
// modes, first come first served. Only the head of a queue asks the store. Of readers and of
// holders of permits, who can hold the lock together, several do.
//
// A call leaves its queue once it has the lock, so that the next calls take their places in
// the store's queue while the lock is held. So the store has few waiters of one process and
// key, however many calls there are. Batches do not wait for each other, because most of them want
// different members.
type localQueues struct {
	max int // calls in all lines

	mu     sync.Mutex // guards all below
	calls  int
	queues map[queueKey]*keyQueue
	unused *keyQueue // the last one that became empty, for the next key; or nil
}

// queueKey names a queue. Readers and writers share one, with the mode Write.
type queueKey struct {
	key  string
	mode driver.Mode
}

// keyQueue is the queue of a key.
type keyQueue struct {
	mode    driver.Mode  // of the active calls
	active  []*localCall // that ask the store, at least one
	taken   int          // active calls whose latest answer is that the lock is taken
	answers int          // that the active calls have had, so far
	waiters list.List    // of *turn
}

// localCall is a Lock in its queue.
type localCall struct {
	since time.Time // when it began; zero if it is not to be reported, or has been
}

// turn is that of a call that must not ask the store yet.
type turn struct {
	call    *localCall
	request driver.Request
	answers int        // of the queue when the call entered it
	ended   chan error // gets nil if the call may ask now, or the error of a call before it
}

// maxActive bounds the calls of one queue that ask the store at one time.
const maxActive = 64

func (l *localQueues) init(most int) {
	l.max = most
	l.queues = make(map[queueKey]*keyQueue)
}

func queueKeyOf(r driver.Request) queueKey {
	if r.Mode == driver.Read {
		return queueKey{r.Key, driver.Write}
	}
	return queueKey{r.Key, r.Mode}
}

// canStart reports whether one more call may ask the store beside the active ones.
func (l *keyQueue) canStart(r driver.Request) bool {
	active := len(l.active)
	switch r.Mode {
	case driver.Members:
		return true
	case driver.Read:
		return active == 0 || l.mode == driver.Read && active < maxActive
	case driver.Permit:
		return active < min(max(r.Limit(), 1), maxActive)
	}
	return active == 0
}

// enter waits until the call may ask the store; then the caller must call leave. It
// returns ErrTooMany at once if too many calls wait, the cause of ctx if that ends, or the error
// with which an earlier call of the queue failed. If ctx ends and the store has answered nobody
// in the queue meanwhile, the error is ErrUnavailable.
func (l *localQueues) enter(ctx context.Context, r driver.Request, call *localCall, o *observation) error {
	l.mu.Lock()
	if l.calls >= l.max {
		l.mu.Unlock()
		return ErrTooMany
	}
	l.calls++
	id := queueKeyOf(r)
	of := l.queues[id]
	if of == nil {
		if of, l.unused = l.unused, nil; of == nil {
			of = new(keyQueue)
		}
		*of = keyQueue{active: of.active[:0]}
		l.queues[id] = of
	}
	if of.waiters.Len() == 0 && of.canStart(r) {
		of.mode = r.Mode
		of.active = append(of.active, call)
		l.mu.Unlock()
		return nil
	}
	t := &turn{call: call, request: r, answers: of.answers, ended: make(chan error, 1)}
	place := of.waiters.PushBack(t)
	l.mu.Unlock()

	returning(o.waiting, func() { _ = l.cancel(ctx, id, place) }) // so that the next calls go on
	select {
	case err := <-t.ended:
		if err != nil || ctx.Err() == nil {
			return err
		}
		t.ended <- nil // cancel passes the turn on
	case <-ctx.Done():
	}
	return l.cancel(ctx, id, place)
}

// cancel takes a call whose ctx has ended out of its queue. If the call was allowed to ask
// meanwhile, its turn goes to the next call.
//
// The lock counts as taken if the latest answer to an active call reports it, or if some call has had an answer
// since this one entered. Otherwise the store has left the whole queue without an answer.
func (l *localQueues) cancel(ctx context.Context, id queueKey, place *list.Element) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.queues[id]
	t := place.Value.(*turn)
	select {
	case err := <-t.ended:
		if err != nil {
			return err
		}
		of.remove(t.call)
	default:
		of.waiters.Remove(place)
	}
	taken := of.taken > 0 || of.answers != t.answers
	l.calls--
	l.advance(id)
	if !taken {
		return ErrUnavailable
	}
	return context.Cause(ctx)
}

// setTaken counts an active call whose latest answer is that the lock is taken, or counts it
// no more.
func (l *localQueues) setTaken(r driver.Request, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.queues[queueKeyOf(r)]
	if !taken {
		of.taken--
		return
	}
	of.taken++
	of.answers++
}

// leave counts a call out and lets the next calls of the queue ask. taken means that the
// lock was taken by the latest answer to the call, and granted that the call has the lock. All
// waiting calls return the error common, unless that is nil. Active calls get the outcome of
// their own requests.
func (l *localQueues) leave(r driver.Request, call *localCall, taken, granted bool, common error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	id := queueKeyOf(r)
	of := l.queues[id]
	if taken {
		of.taken--
	}
	of.remove(call)
	switch {
	case common != nil:
		for place := of.waiters.Front(); place != nil; place = place.Next() {
			place.Value.(*turn).ended <- common
			l.calls--
		}
		of.waiters.Init()
	case taken || granted:
		of.answers++
	}
	l.advance(id)
}

// advance lets all calls ask that may ask now. The caller holds mu.
func (l *localQueues) advance(id queueKey) {
	of := l.queues[id]
	for {
		first := of.waiters.Front()
		if first == nil {
			break
		}
		t := first.Value.(*turn)
		if !of.canStart(t.request) {
			break
		}
		of.mode = t.request.Mode
		of.active = append(of.active, t.call)
		of.waiters.Remove(first)
		t.ended <- nil
	}
	if len(of.active) == 0 {
		delete(l.queues, id)
		l.unused = of
	}
}

// remove takes a call out of the active ones.
func (l *keyQueue) remove(call *localCall) {
	l.active = slices.DeleteFunc(l.active, func(other *localCall) bool { return other == call })
}

// waitedSince returns how many calls for each key wait since before an instant, each call once. It also reports
// whether others may be reported later.
func (l *localQueues) waitedSince(limit time.Time) (calls map[string]int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls = make(map[string]int)
	look := func(key string, call *localCall) {
		switch {
		case call.since.IsZero():
		case call.since.After(limit):
			more = true
		default:
			call.since = time.Time{}
			calls[key]++
		}
	}
	for id, of := range l.queues {
		for _, call := range of.active {
			look(id.key, call)
		}
		for place := of.waiters.Front(); place != nil; place = place.Next() {
			look(id.key, place.Value.(*turn).call)
		}
	}
	return calls, more
}

// len returns the number of calls in all queues.
func (l *localQueues) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}
