package renewal

import "time"

// Lease returns the lease as it was given to Register or Pass.
func (e *Entry[L]) Lease() L { return e.lease }

// Stop ends the renewals. It returns true if the lease was held until now, false
// if it had been lost, stopped or closed before. Stop does not wait for a renewal
// that is under way, but no batch takes the lease afterwards, and nothing that
// the store still answers for it has any effect. Calling it again is harmless.
func (e *Entry[L]) Stop() bool {
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	return e.stop(ErrStopped, e.dog.clock.now())
}

// Confirm tells that the lease was renewed for its full TTL by a request other than
// the watchdog's, sent at that instant and answered. It moves the deadline, and the
// next renewal, as a renewal of its own would, but never to before where it was;
// until replaces Grant.Until unless it is zero. An instant that is yet to come
// counts as now. Confirm returns false if the entry has ended before: nothing
// revives it.
func (e *Entry[L]) Confirm(sent, until time.Time) bool {
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	age := min(max(ageOf(sent), 0), e.life) // an older one moves nothing, and may be of any age
	now, latest := e.dog.clock.now(), e.latest
	at := instant{now.mono - int64(age), now.wall - int64(age)}
	if !until.IsZero() {
		latest = e.dog.clock.end(until)
	}
	return e.confirm(at, latest, now)
}

// Pass ends the entry, as Stop does, and returns one for the given lease that stands
// where it stood: the same deadline, and the next renewal when it was due; soon, if
// one was under way. There is no instant at which both are held, and none at which
// a renewal is forgotten. The error is that with which the entry had ended before,
// or that of an engine that is full or closed; then nothing has changed.
func (e *Entry[L]) Pass(lease L) (*Entry[L], error) {
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	return e.pass(lease, e.dog.clock.now())
}

// Valid reports whether the lease may still be relied on, at this very moment. It
// looks at the clocks, so it is right although no timer has run yet, as after a
// pause of the process. It takes no lock and costs as much as time.Now. It ends
// nothing: an answer of false that stays is that of Err.
func (e *Entry[L]) Valid() bool {
	return !e.dog.clock.now().reached(e.deadline())
}

// Deadline returns the instant after which the lease may not be assumed held
// unless a renewal moves it before, the zero Time once the entry has ended.
func (e *Entry[L]) Deadline() time.Time {
	deadline := e.deadline()
	if deadline.mono == ended || deadline.wall == ended {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(e.dog.clock.at(now).until(deadline))
}

// Err returns nil while the lease may be assumed held, and then why it may not:
// a *LostError, ErrStopped or ErrClosed. It looks at the clocks: past the
// deadline it answers, and the entry ends, although no timer has run yet. The
// answer never changes any more.
func (e *Entry[L]) Err() error {
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	e.expire(e.dog.clock.now())
	if e.state != over {
		return nil
	}
	return e.end.err
}

// Done returns a channel that is closed when the entry ends, for whatever reason.
// It is a notification and no proof: after a pause of the process a goroutine may
// run on before the channel is closed. Ask Valid or Err right before a step that
// needs the lease.
func (e *Entry[L]) Done() <-chan struct{} {
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	e.expire(e.dog.clock.now())
	end := e.ending()
	if end.done == nil {
		end.done = make(chan struct{})
		if e.state == over {
			close(end.done)
		}
	}
	return end.done
}

// AfterFunc arranges for f to be called in its own goroutine once the entry has
// ended, at once if it has. It panics if f is nil; a panic of f is not recovered.
// Several functions are started in no particular order. The function returned calls f off and reports
// whether it did: false means that f was started or called off before.
func (e *Entry[L]) AfterFunc(f func()) (stop func() bool) {
	if f == nil {
		panic("renewal: AfterFunc of a nil function")
	}
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	e.expire(e.dog.clock.now())
	if e.state == over {
		go f()
		return func() bool { return false }
	}
	end, a := e.ending(), &afterFunc{f}
	if end.funcs == nil {
		end.funcs = make(map[*afterFunc]struct{})
	}
	end.funcs[a] = struct{}{}
	return func() bool {
		e.dog.mu.Lock()
		defer e.dog.mu.Unlock()
		_, waits := end.funcs[a]
		delete(end.funcs, a)
		return waits
	}
}
