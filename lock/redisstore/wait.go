// Wait, and the states of a waiter.

package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

const (
	pollsPerPlace = 3                      // a place survives the loss of two polls
	maxPolls      = 8                      // bounds the unanswered polls of one waiter
	retryAfter    = 10 * time.Millisecond  // the delay before the first request is sent again
	drainTime     = 100 * time.Millisecond // a granted waiter waits this long for unanswered polls, or two round trips
	overdue       = 100 * time.Millisecond // an unanswered poll is normal for so long
	expiryDelay   = 2 * time.Millisecond   // the server deletes a key at most this long after its expiry
)

// Wait implements [driver.Store]. If the lock is taken, Wait appends the owner to the
// queue of the lock. The place there lasts for Options.Place. Wait sends three polls in
// that time, and each of them extends the place. A release grants the lock to the first
// live place, for the rest of that place, and publishes a signal. If the signal is lost,
// the next poll learns of the grant.
//
// A dead waiter therefore delays the waiters behind it until its place expires. Several
// dead waiters expire at the same time.
//
// Wait returns an error if its first two requests fail, or if the server refuses to execute the
// first one. Once it is queued, it returns an
// error if a request fails and no answer has come for as long as a place lasts.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (lease driver.Lease, err error) {
	err = check(&r, true)
	if err == nil && s.redis == nil {
		err = rediskit.ErrZeroStore
	}
	if err == nil {
		err = s.redis.Begin(ctx)
	}
	if err != nil {
		return driver.Lease{}, failed("wait", err)
	}
	defer s.redis.End()
	name, place := wireOwner(&r), s.place(r.TTL)
	channel := channelOf(name)
	listener := s.subscription.Join(name, channel)
	defer func() { s.subscription.Leave(listener) }()
	first := reply{sent: time.Now()}
	first.acquired, first.err = s.sendAcquire(ctx, r, place)
	began, answered := first.sent, first.err == nil
	if answered {
		first.sent = first.acquired.sent
	}
	if answered && first.verdict == granted { // most locks are free
		lease = s.lease(r, first.token, first.sent)
		lease.Saved = first.saved
	} else {
		if listener == nil {
			listener = pubsub.NewListener(name, channel)
		}
		w := &waiter{
			store: s, request: r, place: place, listener: listener,
			onQueued:     queued,
			answers:      make(chan reply, maxPolls),
			lastPollSent: began, lastSent: began,
		}
		w.onAnswer(first)
		if !w.done() {
			w.queue(ctx)
		}
		lease, answered, err = w.lease, !w.lastAnswer.IsZero(), w.err
		lease.Unanswered = w.unanswered
	}
	if err == nil && s.replicas.Count > 0 {
		err = s.confirm(ctx, &lease)
	}
	if err == nil {
		return lease, nil
	}
	err = failed("wait", s.nameForeign(ctx, &r, err))
	if answered || lease.Unanswered {
		err = driver.SentBefore(err)
	}
	return driver.Lease{Unanswered: lease.Unanswered}, err
}

// channelOf returns the channel of an owner, without the prefix: the owner up to the last colon, which all owners of
// a client share.
func channelOf(name string) string {
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 {
		return name[:colon]
	}
	return name
}

// place returns the length of a place in the queue of a lock with this TTL. Unless
// Options.Place is longer, it is at most maxPlace, because dead waiters delay others for so long.
func (s *Store) place(ttl time.Duration) time.Duration {
	place := s.placeFor
	if place == 0 {
		place = min(max(ttl/3, minPlace), maxPlace)
	}
	return min(max(place, min(ttl/10, maxPlace)), ttl).Truncate(time.Millisecond)
}

// outlasts reports whether a lock that was handed over, for the rest of a place, outlasts the
// margin of a client. A poll must give a shorter one the full TTL first.
func (w *waiter) outlasts() bool { return w.place >= w.request.TTL/10 }

// waitState is the state of a waiter. Only this file changes it. A cell
// without a state leaves the state as it is.
//
//	event                           entering                      queued
//	answer: taken                   queued; set the timer         queued; set the timer
//	answer: granted                 granted                       granted
//	answer: refused                 failed                        failed
//	error: nothing was executed     failed                        retry; failed after a place without an answer
//	any other error                 retry once, then failed       retry; failed after a place without an answer
//	timer                           send a poll                   send a poll; failed if no answer for too long
//	signal, new token, early        granted, or poll for a short place                       granted
//	signal, new token, late         poll, now or after an answer  poll, now or after an answer
//	token 0, or signals missed      poll, now or after an answer  poll, now or after an answer
//	signal, old token               ignore                        ignore
//	ctx ended, store closed         failed                        failed
//
// "Early" is the first half of the place. A place is short below a tenth of the TTL. The states
// granted and failed are final.
//
// The drawing shows the head of a queue. Its poll p0 takes a place, and p1 extends it.
// At r the holder releases the lock, which goes to the head for the rest of the place.
// The waiter counts that rest from the moment at which it sent p1. Its deadline d is
// therefore never later than the expiry on the server.
//
//	time      p0 -------- p1 ------ r ---------------- d --->
//	queue     [ this waiter, others ][ others ]
//	place p0  [========================]
//	place p1              [=============================]
//	grant                           [===================]
//	deadline              [== length of a place =====>] d
type waitState uint8

const (
	waitEntering waitState = iota // no answer yet: the owner may or may not have a place
	waitQueued                    // a request was answered "taken": the owner has a place
	waitGranted                   // lease is set
	waitFailed                    // err is set
)

// waiter is one call of Wait whose first request was not granted.
type waiter struct {
	store    *Store
	request  driver.Request
	place    time.Duration // the length of a place
	listener *pubsub.Listener
	onQueued func() // notifies the client

	state waitState
	lease driver.Lease // in waitGranted
	err   error        // in waitFailed

	timer     *time.Timer // fires when the next poll must be sent
	polls     []*poll     // unanswered polls, the oldest first
	answers   chan reply  // of polls
	pollAgain bool        // send a poll after the next answer
	failures  int         // of requests in a row
	failure   error       // of the last of them

	lastSent   time.Time     // when the latest request was sent
	lastAnswer time.Time     // when the latest answer came
	roundTrip  time.Duration // of the latest answered request

	// lastPollSent is the latest sending among the requests that were answered "taken".
	// Before the first answer it is the sending of the first request. Each executed
	// request extends the place to its full length. A grant that came after that request
	// therefore lasts at least until lastPollSent + place. No grant can be older than the
	// first request, because no other call uses this owner.
	lastPollSent time.Time

	// maxToken is the highest token in any answer. A signal with a higher token reports
	// a grant that came after that answer, and so after lastPollSent.
	maxToken uint64

	unanswered bool // the server may still execute a request
}

// poll is an unanswered poll.
type poll struct {
	sent   time.Time
	cancel context.CancelFunc
}

// reply is the outcome of one request.
type reply struct {
	acquired
	poll *poll // nil for the first request
	sent time.Time
	err  error
}

// done reports whether the state is final.
func (w *waiter) done() bool { return w.state >= waitGranted }

// enqueued moves the waiter to waitQueued and starts to listen for signals.
func (w *waiter) enqueued() {
	if w.state == waitQueued {
		return
	}
	w.state = waitQueued
	w.store.subscription.Listen(w.listener)
	w.onQueued()
}

// grant moves the waiter to waitGranted, with a lease that begins at sent.
func (w *waiter) grant(token uint64, sent time.Time) {
	w.state = waitGranted
	w.lease = w.store.lease(w.request, token, sent)
}

// fail moves the waiter to waitFailed.
func (w *waiter) fail(err error) {
	w.state = waitFailed
	w.err = err
}

// queue handles events until the state is final.
func (w *waiter) queue(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the unanswered polls
	defer w.timer.Stop()
	for !w.done() {
		select {
		case <-ctx.Done():
			w.fail(w.endedError(ctx))
		case <-w.store.redis.Context().Done():
			w.fail(driver.ErrStoreClosed)
		case <-w.listener.Wake():
			token, signal, missed := w.store.subscription.Take(w.listener)
			w.onSignal(ctx, token, signal, missed)
		case <-w.timer.C:
			w.poll(ctx)
		case r := <-w.answers:
			if r.err != nil && ctx.Err() != nil { // the polls end with ctx
				w.fail(w.endedError(ctx))
				continue
			}
			if !w.removePoll(r.poll) && r.err != nil {
				continue // poll has cancelled it already
			}
			w.onAnswer(r)
			if w.pollAgain && !w.done() {
				w.poll(ctx)
			}
		}
	}
	if w.state == waitGranted {
		w.drainPolls(ctx)
	}
	w.unanswered = w.unanswered || len(w.polls) > 0
}

// onAnswer handles the outcome of a request.
func (w *waiter) onAnswer(r reply) {
	if r.err != nil {
		w.onError(r.err)
		return
	}
	w.lastAnswer = time.Now()
	w.roundTrip = w.lastAnswer.Sub(r.sent)
	switch r.verdict {
	case granted:
		w.grant(r.token, r.sent)
		w.lease.Saved = r.saved
		return
	case refused:
		w.fail(errGivenUp)
		return
	}
	w.failures, w.failure = 0, nil
	w.maxToken = max(w.maxToken, r.token)
	if r.sent.Before(w.lastPollSent) {
		return // a later request was answered first
	}
	w.lastPollSent = r.sent
	w.enqueued()
	next := w.pollInterval() - time.Since(w.lastSent)
	if r.head && r.expiresIn > 0 { // only the first waiter notices that the lease expires
		next = min(next, r.expiresIn+expiryDelay)
	}
	w.setTimer(next)
}

// onError handles a failed request. It sends the request again later, or fails.
func (w *waiter) onError(err error) {
	v := driver.VerdictOf(err)
	if v.IsFinal() || v == driver.NotExecuted && w.state == waitEntering {
		w.fail(err)
		return
	}
	w.unanswered = w.unanswered || !v.LeavesNothing()
	w.failures++
	w.failure = err
	switch {
	case w.state == waitEntering && w.failures == 1:
		w.setTimer(retryAfter)
	case w.state == waitQueued && time.Since(w.lastAnswer) < w.place:
		w.setTimer(min(w.place/(4*pollsPerPlace), w.pollInterval()-time.Since(w.lastSent)))
	default:
		w.fail(err)
	}
}

// onSignal handles a signal. A new token grants the lock in the first half of a place that is not
// short. Otherwise a poll is better, because its answer extends the lease to the full TTL.
func (w *waiter) onSignal(ctx context.Context, token uint64, signal string, missed bool) {
	fresh := token > w.maxToken
	switch {
	case fresh && w.outlasts() && time.Since(w.lastPollSent) < w.place/2:
		w.grant(token, w.lastPollSent.Add(w.place-w.request.TTL))
		if w.request.Stateful() {
			w.lease.Saved = savedIn(signal)
		}
	case !fresh && !missed:
	case len(w.polls) > 0:
		w.pollAgain = true
	default:
		w.poll(ctx)
	}
}

// poll sends a request in the background, because a signal may come before its answer.
// If maxPolls are unanswered it cancels the oldest. It fails if the server has not
// answered for too long, with the error of the last request if there is one.
func (w *waiter) poll(ctx context.Context) {
	w.pollAgain = false
	if limit := max(w.place, w.store.timeout); w.state == waitQueued && time.Since(w.lastAnswer) >= limit {
		w.fail(cmp.Or(w.failure, error(driver.NoAnswerError(limit))))
		return
	}
	if len(w.polls) == maxPolls {
		w.polls[0].cancel()
		w.removePoll(w.polls[0])
		w.unanswered = true
	}
	send := w.store.sendAcquire
	if w.state == waitQueued {
		send = w.store.sendPoll
		w.setTimer(w.pollInterval())
	}
	pollCtx, cancel := context.WithCancel(ctx)
	w.lastSent = time.Now()
	p := &poll{w.lastSent, cancel}
	w.polls = append(w.polls, p)
	w.store.redis.Go(func() {
		defer cancel()
		r := reply{poll: p, sent: time.Now()}
		if r.acquired, r.err = send(pollCtx, w.request, w.place); r.err == nil {
			r.sent = r.acquired.sent
		}
		select {
		case w.answers <- r:
		case <-pollCtx.Done(): // nobody reads the answer
		}
	})
}

// removePoll removes an answered or cancelled poll, and reports whether it was there.
func (w *waiter) removePoll(p *poll) bool {
	i := slices.Index(w.polls, p)
	if i < 0 {
		return false
	}
	w.polls = slices.Delete(w.polls, i, i+1)
	return true
}

// endedError returns the error of a Wait whose ctx has ended. It matches ErrUnavailable if
// the latest request has failed, or if its answer is overdue.
func (w *waiter) endedError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if w.failure != nil {
		return fmt.Errorf("%w: %w, after %w", driver.ErrUnavailable, cause, w.failure)
	}
	if len(w.polls) > 0 && time.Since(w.polls[0].sent) >= max(overdue, 2*w.roundTrip) {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, cause)
	}
	return cause
}

// drainPolls waits for the answers of unanswered polls, unless they would use up much of the
// lease. If all come, the release of the lock needs no tombstone. An answer "granted" extends
// the lease.
func (w *waiter) drainPolls(ctx context.Context) {
	most := w.place / 16
	if len(w.polls) == 0 || 2*w.roundTrip > most {
		return
	}
	timer := time.NewTimer(min(max(2*w.roundTrip, drainTime), most))
	defer timer.Stop()
	for len(w.polls) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-w.store.redis.Context().Done():
			return
		case <-timer.C:
			return
		case r := <-w.answers:
			w.removePoll(r.poll)
			w.unanswered = w.unanswered || r.err != nil
			if r.err == nil && r.verdict == granted && r.token == w.lease.Token && r.sent.After(w.lease.Sent) {
				w.lease.Sent = r.sent
			}
		}
	}
}

// pollInterval returns the time between two polls. It is random, so that waiters that
// came at the same time do not poll at the same time.
func (w *waiter) pollInterval() time.Duration {
	interval := w.place / pollsPerPlace
	return interval - rand.N(interval/10+1)
}

// setTimer sets the timer of the next poll. A negative d fires it at once.
func (w *waiter) setTimer(d time.Duration) {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
		return
	}
	w.timer.Reset(d)
}

var errGivenUp = fmt.Errorf("%w: the acquisition was given up", driver.ErrNotAcquired)
