package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	pollsPerPlace = 3                     // so that two may be lost
	retryAfter    = 10 * time.Millisecond // a first request that failed
	dropAfter     = 2 * time.Millisecond  // a server drops a key that long after its end
)

var _ lock.Waiter = (*Store)(nil)

// Wait implements [lock.Waiter]. A lock that is taken gives the owner a place in its
// queue, which lasts for Options.Place and is kept by polls, three in that time.
// The release of the lock hands it over to the first place that has not ended, for
// what is left of that place, and signals it. If the signal is lost a poll finds
// out.
//
// So a waiter that has died holds up those behind it until its place has ended, and
// no longer if others died with it. It gives up with an error when the server has
// not answered for as long as a place lasts, or to its first two requests.
func (s *Store) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	w := &waiting{store: s, request: r, place: s.place(r.TTL), answers: make(chan reply, 1)}
	lease, err := w.wait(ctx)
	if err != nil {
		return lock.Lease{Unanswered: w.unanswered}, failed("wait for", r.Key, err)
	}
	lease.Unanswered = w.unanswered
	return lease, nil
}

// place returns how long a place of a lock with that TTL lasts. It is at least a
// tenth of the TTL, so that what is handed over outlasts the margin of the client.
func (s *Store) place(ttl time.Duration) time.Duration {
	place := s.placeFor
	if place == 0 {
		place = min(max(ttl/3, minPlace), maxPlace)
	}
	return min(max(place, ttl/10), ttl).Truncate(time.Millisecond)
}

// waiting is one call of Wait.
type waiting struct {
	store   *Store
	request lock.Request
	place   time.Duration
	ear     *ear
	timer   *time.Timer // of the next poll
	answers chan reply  // of the poll that is under way

	// anchor is when the latest request was sent that was answered "queued", and at
	// first when the first one was. Every request that is executed gives the place
	// its full time again. So a grant that came after the anchor's was executed
	// lasts until anchor + place, at least; and the owner is this call's alone, so
	// none came before the first.
	anchor time.Time

	// mark is the highest token in any answer. A signal of a higher one tells of a
	// grant that came after the answer, and so after the anchor.
	mark uint64

	queued     bool // some request was answered so
	polling    bool // one is under way
	again      bool // another is to follow it
	unanswered bool // some request may yet be executed
	failures   int  // in a row
}

// reply is what came of one request.
type reply struct {
	acquired
	sent time.Time
	err  error
}

func (w *waiting) wait(ctx context.Context) (lock.Lease, error) {
	s := w.store
	if err := checkAcquire(&w.request); err != nil {
		return lock.Lease{}, err
	}
	if err := s.begin(ctx); err != nil {
		return lock.Lease{}, err
	}
	defer s.running.Done()
	w.ear = s.signals.join(named(&w.request))
	defer s.signals.leave(w.ear)
	w.anchor = time.Now()
	lease, err := w.answered(w.ask(ctx))
	if lease != nil || err != nil {
		return value(lease), err
	}
	return w.queue(ctx)
}

// queue waits for a signal, or for the poll that makes it good.
func (w *waiting) queue(ctx context.Context) (lock.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a poll that is still under way
	defer w.timer.Stop()
	for {
		var lease *lock.Lease
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-w.store.closing:
			err = lock.ErrClosed
		case <-w.ear.wake:
			lease = w.signalled(ctx)
		case <-w.timer.C:
			w.poll(ctx)
		case r := <-w.answers:
			w.polling = false
			lease, err = w.answered(r)
			if w.again && lease == nil && err == nil {
				w.poll(ctx)
			}
		}
		if lease != nil || err != nil {
			w.unanswered = w.unanswered || w.polling
			return value(lease), err
		}
	}
}

func value(l *lock.Lease) lock.Lease {
	if l == nil {
		return lock.Lease{}
	}
	return *l
}

// ask sends one request: it tries, takes a place, or keeps it.
func (w *waiting) ask(ctx context.Context) reply {
	r := reply{sent: time.Now()}
	r.acquired, r.err = w.store.ask(ctx, w.request, w.place)
	return r
}

// poll sends a request in the background, for a signal may come first. If one is
// under way already another will follow it.
func (w *waiting) poll(ctx context.Context) {
	w.again = w.polling
	if w.polling {
		return
	}
	w.polling = true
	bound := w.store.timeout
	if w.queued { // one that gets no answer must leave time for another in this place
		bound = min(bound, w.place/pollsPerPlace)
	}
	w.store.running.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, bound, noAnswerError(bound))
		defer cancel()
		w.answers <- w.ask(ctx)
	})
}

// answered returns a lease or an error if the waiting is over, and else sets the
// time of the next request.
func (w *waiting) answered(r reply) (*lock.Lease, error) {
	switch {
	case r.err != nil:
		return nil, w.failed(r.err)
	case r.verdict == granted:
		return w.lease(r.token, r.sent), nil
	case r.verdict == refused:
		return nil, errGivenUp
	}
	w.failures = 0
	w.anchor = r.sent
	w.mark = max(w.mark, r.token)
	if !w.queued {
		w.queued = true
		w.store.signals.listen(w.ear)
	}
	interval := w.place / pollsPerPlace
	interval -= rand.N(interval/10 + 1) // waiters that came together part
	if r.head && r.expiresIn > 0 {      // of the lock: if it is not renewed, nobody else will notice
		interval = min(interval, r.expiresIn+dropAfter)
	}
	w.next(interval)
	return nil, nil
}

// failed returns the error if it is not to be tolerated.
func (w *waiting) failed(err error) error {
	if isAnswer(err) {
		return err
	}
	w.unanswered = true
	w.failures++
	switch {
	case !w.queued && w.failures == 1:
		w.next(retryAfter)
	case w.queued && time.Since(w.anchor) < w.place:
		w.next(w.place / (4 * pollsPerPlace))
	default:
		return err
	}
	return nil
}

func (w *waiting) next(d time.Duration) {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
		return
	}
	w.timer.Reset(d)
}

// signalled returns the lease that a signal tells of, unless it is stale, or so much
// of the place has passed that it is better to ask for a whole TTL.
func (w *waiting) signalled(ctx context.Context) *lock.Lease {
	token, again := w.store.signals.take(w.ear)
	fresh := token > w.mark
	if fresh && time.Since(w.anchor) < w.place/2 {
		return w.lease(token, w.anchor.Add(w.place-w.request.TTL))
	}
	if fresh || again {
		w.poll(ctx)
	}
	return nil
}

func (w *waiting) lease(token uint64, sent time.Time) *lock.Lease {
	l := w.store.lease(w.request, token, sent)
	return &l
}

// isAnswer tells errors that are the server's word, or for which it was not asked.
func isAnswer(err error) bool {
	return errors.Is(err, lock.ErrWrongType) || errors.Is(err, lock.ErrBadKey)
}

var errGivenUp = fmt.Errorf("%w: the acquisition was given up", lock.ErrNotAcquired)
