// The exported methods of an entry.

package renewal

import "time"

// Lease returns the lease that was passed to Register or Replace, as Update has changed it.
func (e *Entry[L]) Lease() L {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.lease
}

// Stop ends the renewals. It returns true if the lease was held until now, and false if
// the entry had ended before. Stop does not wait for a renewal that is under way. No
// later batch contains the lease, and a late answer of the store has no effect.
func (e *Entry[L]) Stop() bool {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.stop(ErrStopped, e.w.clock.now())
}

// StopWith is Stop with a reason, which Err then returns. It is no loss: no hook is called. StopWith returns the
// lease, and nil if that was held until now, otherwise why it had ended. It panics if reason is nil.
func (e *Entry[L]) StopWith(reason error) (L, error) {
	if reason == nil {
		panic("renewal: StopWith without a reason")
	}
	e.w.mu.Lock()
	defer e.w.unlock()
	if e.stop(reason, e.w.clock.now()) {
		return e.lease, nil
	}
	return e.lease, e.end.err
}

// ReportRenewed tells the watchdog that a request of the caller has renewed the lease for
// its full TTL. The argument sent is the time before that request; a time in the future
// counts as now. ReportRenewed moves the deadline and the next renewal, as a renewal by the
// watchdog does, and never moves the deadline back. Unless it is zero, until replaces
// Grant.Until. ReportRenewed returns false if the entry has ended, and does not revive it.
func (e *Entry[L]) ReportRenewed(sent, until time.Time) bool {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.renewedSince(e.ttl, sent, until)
}

// Update does what ReportRenewed does for a request with the TTL of the grant, which may be
// longer or shorter than before. It also changes the lease: all later renewals send the lease that
// change returns, which must have that TTL. A renewal that is under way counts with the TTL
// that it was sent with. The deadline never moves back, because no renewal shortens a lease
// on the store. Unless it is zero, Grant.Until replaces that of Register.
//
// Update calls change with a mutex held. So change must only compute its result from its
// argument. On an error nothing has changed. The error is that of the entry if it has
// ended, or names the field of the grant that is wrong.
func (e *Entry[L]) Update(g Grant, change func(L) L) error {
	e.w.mu.Lock()
	defer e.w.unlock()
	if err := e.w.checkTerms(g); err != nil {
		return err
	}
	if !e.renewedSince(g.TTL, g.Sent, g.Until) {
		return e.end.err
	}
	e.lease = change(e.lease)
	return nil
}

// renewedSince applies a renewal with the given TTL by a request of the caller. The caller
// holds w.mu.
func (e *Entry[L]) renewedSince(ttl time.Duration, sent, until time.Time) bool {
	age := min(max(ageOf(sent), 0), e.w.opts.validity(ttl)) // an older request moves nothing, and could overflow
	now, maxDeadline := e.w.clock.now(), e.maxDeadline
	at := instant{now.mono - int64(age), now.wall - int64(age)}
	if !until.IsZero() {
		maxDeadline = e.w.clock.endOf(until)
	}
	return e.renewed(ttl, at, maxDeadline, now)
}

// ReportLost tells the watchdog that the store has denied the ownership in the answer to a
// request of the caller. The entry ends with a *LostError whose Err is the given error, and
// its holder is told, as after a renewal by the watchdog. ReportLost returns false if the
// entry has ended before.
func (e *Entry[L]) ReportLost(err error) bool {
	e.w.mu.Lock()
	defer e.w.unlock()
	now := e.w.clock.now()
	e.expireIfPast(now)
	if e.state == ended {
		return false
	}
	e.recordErr(err)
	e.lose(ReasonNotOwned)
	e.w.noteDenials(e.w.laneOf(e), 1, 0, false, now)
	return true
}

// Replace ends the entry, as Stop does, and returns an entry for the given lease with
// the same deadline and the same next renewal. The argument ttl is the TTL of that lease. If
// a renewal is under way, the next one comes after a quarter of the remaining time. The
// change is atomic: at each moment exactly one of the two entries is held. On an error
// nothing has changed. The error is that of the entry if it has ended, or that of an engine
// that is full or closed.
func (e *Entry[L]) Replace(lease L, ttl time.Duration) (*Entry[L], error) {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.replace(lease, ttl, e.w.clock.now())
}

// Valid reports whether the lease can be relied on at this moment. It reads the clocks,
// so it is correct even before a timer has run, for example after a pause of the process. It
// takes no mutex, does not allocate, and costs as much as time.Now. Valid ends
// nothing: call Err for the final answer.
func (e *Entry[L]) Valid() bool {
	return !e.w.clock.now().reached(e.deadline())
}

// Deadline returns the time until which the lease can be relied on unless a renewal
// extends it. It returns the zero Time once the entry has ended.
func (e *Entry[L]) Deadline() time.Time {
	deadline := e.deadline()
	if deadline.mono == distantPast || deadline.wall == distantPast {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(e.w.clock.at(now).until(deadline))
}

// Err returns nil while the lease is held, and then why it is not: a *LostError,
// ErrStopped or ErrClosed. It reads the clocks: past the deadline the entry ends,
// even if no timer has run. Once Err returns an error, it always returns the same one.
func (e *Entry[L]) Err() error {
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	if e.state != ended {
		return nil
	}
	return e.end.err
}

// Done returns a channel that is closed when the entry ends for any reason. The channel
// is a notification, not a proof: after a pause of the process, a goroutine may
// run before the channel is closed. Call Valid or Err right before a step that needs the
// lease.
func (e *Entry[L]) Done() <-chan struct{} {
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	end := e.completion()
	if end.done == nil {
		end.done = make(chan struct{})
		if e.state == ended {
			close(end.done)
		}
	}
	return end.done
}

// AfterFunc calls f in its own goroutine when the entry ends, or at once if it has ended.
// Several functions start in no particular order. A panic of f is not recovered. The
// function stop cancels the call. It returns false if f was started or
// cancelled before. AfterFunc panics if f is nil.
func (e *Entry[L]) AfterFunc(f func()) (stop func() bool) {
	if f == nil {
		panic("renewal: AfterFunc of a nil function")
	}
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	if e.state == ended {
		e.w.toStart = append(e.w.toStart, f)
		return func() bool { return false }
	}
	end, a := e.completion(), &afterFunc{f}
	if end.funcs == nil {
		end.funcs = make(map[*afterFunc]struct{})
	}
	end.funcs[a] = struct{}{}
	return func() bool {
		e.w.mu.Lock()
		defer e.w.unlock()
		_, pending := end.funcs[a]
		delete(end.funcs, a)
		if len(end.funcs) == 0 {
			end.funcs = nil // a map keeps the memory of deleted keys
		}
		return pending
	}
}
