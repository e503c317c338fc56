// The requests that a store sends for all its waiters together.

package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxAsked    = 1000        // keys or places that one statement of the poller names
	minPatience = time.Second // the least bound of such a statement

	minPace = 10 * time.Millisecond // the least time between two reads of a key
)

// poller asks the database for all queued waiters of a store. One read for many keys shows whether their locks are free
// or were handed over. One statement extends many places and locks no row of a lock; another one, which is rare, locks
// such rows and skips those of others. The goroutine of the poller runs while there are queued waiters.
//
// A client has one waiter for a key, so a store has as many as it has clients.
type poller struct {
	kick chan struct{}  // has an element if something may be due earlier
	runs sync.WaitGroup // of the goroutine

	mu      sync.Mutex         // guards all below, and the fields of waiter that name it
	waiters map[string]*waiter // the calls of Wait, by owner
	running bool
	closed  bool // it never runs again
}

// lockState is what a row shows of a lock.
type lockState struct {
	owner            string
	kind             int64
	left, queuedLeft int64 // ms until the lease, and the time for which the key may have places, end
	token, age       int64 // of the last grant; age in µs
}

// queued gives the poller the answer to a request of a waiter that was sent at an instant, with the name of its
// channel. It reports whether this is the first place of the waiter.
func (s *Store) queued(w *waiter, sent time.Time, a answer, channel string) (first bool) {
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = !w.queued; first {
		w.queued, w.pollAt = true, sent.Add(time.Hour)
	}
	if a.entered {
		w.entered, w.ahead, w.channel = true, a.ahead, channel
		w.extendAt = jittered(sent, w.extendEvery())
	}
	w.lastAnswer = time.Now()
	if w.pace == 0 {
		w.pace = time.Duration(a.age) * time.Microsecond
	}
	left := time.Duration(a.left) * time.Millisecond
	if a.guarded { // nothing announces that the transaction has ended
		left = s.options.PollInterval
	}
	if at := s.nextPoll(w, left); at.Before(w.pollAt) {
		w.pollAt = at
	}
	switch {
	case p.running:
		signal(p.kick)
	case !p.closed:
		p.running = true
		p.runs.Go(s.poll)
	}
	return first
}

// nextPoll returns when the row of a waiter's key is read again: the sooner, the fewer waiters are before it and
// the shorter holders keep the lock lately, and as soon as the lease in the way ends. With a channel on which
// the waiter is notified, only the latter.
func (s *Store) nextPoll(w *waiter, left time.Duration) time.Time {
	now := time.Now()
	at := now.Add(w.place)
	if w.channel == "" {
		at = jittered(now, s.pollEvery(w))
	}
	if end := now.Add(max(left, 0) + expiryDelay); w.ahead == 0 && end.Before(at) {
		at = end
	}
	return at
}

// pollEvery returns the time between two reads for a waiter. The reads of all stores together are a small
// multiple of the hand-overs, because the time grows with the number of waiters before.
func (s *Store) pollEvery(w *waiter) time.Duration {
	ahead := time.Duration(min(w.ahead, 10_000))
	slow := s.options.PollInterval * (ahead + 1)
	if w.pace == 0 {
		return slow
	}
	return min(slow, max(w.pace*max(2*(ahead-1), 1)/8, minPace))
}

// jittered returns an instant after some time, less up to a tenth of it, so that processes that came at the same
// time do not ask at the same time.
func jittered(from time.Time, d time.Duration) time.Time { return from.Add(d - rand.N(d/10+1)) }

// poll is the goroutine of the poller.
func (s *Store) poll() {
	p := &s.poller
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		read, extend, patience, next := p.due(time.Now())
		switch {
		case next.IsZero():
			return
		case len(read) > 0 || len(extend) > 0:
			s.pollDue(read, extend, patience)
			continue
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-p.kick:
		case <-s.calls.Ctx.Done():
			p.mu.Lock()
			p.running = false
			p.mu.Unlock()
			return
		}
	}
}

// due returns the waiters whose keys are to be read, by the number of waiters before them, those whose places are to be
// extended, how long a statement may take, and when the next ones are due, which is zero if there are no waiters. A place of
// 10 s survives a read and an extension without an answer. Places that are due soon are extended together with those
// that are due, and their keys read.
func (p *poller) due(now time.Time) (read, extend []*waiter, patience time.Duration, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	patience = time.Hour
	anyDue, keys := false, make(map[string]bool) // keys to be read
	for _, w := range p.waiters {
		if w.queued {
			next = now.Add(time.Hour)
			anyDue = anyDue || !w.extendAt.After(now)
			patience = min(patience, w.place/(2*pollsPerPlace))
		}
	}
	for _, w := range p.waiters {
		if w.queued && anyDue && w.extendAt.Before(now.Add(w.extendEvery()/2)) {
			extend = append(extend, w)
			w.extendAt = jittered(now, w.extendEvery())
			w.pollAt = now
		}
		if w.queued && !w.pollAt.After(now) {
			keys[w.request.Key] = true
		}
	}
	for _, w := range p.waiters {
		if keys[w.request.Key] && w.queued {
			read = append(read, w)
			w.pollAt = now.Add(w.place) // until the answer gives the time
			if w.asked.IsZero() {
				w.asked = now
			}
		}
		for _, t := range []time.Time{w.pollAt, w.extendAt} {
			if w.queued && t.Before(next) {
				next = t
			}
		}
	}
	p.running = !next.IsZero()
	slices.SortFunc(read, func(a, b *waiter) int { return cmp.Compare(a.ahead, b.ahead) })
	return read, extend, max(patience, minPatience), next
}

// pollDue reads the keys of waiters and extends places. Places come last: in SQLite that may wait for another writer.
func (s *Store) pollDue(read, extend []*waiter, patience time.Duration) {
	short := make(map[string]bool) // keys whose time for places ends soon
	for part := range slices.Chunk(read, maxAsked) {
		states, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]lockState, error) {
			return s.readLocks(ctx, c, part)
		})
		moved := s.answered(part, states, short, err)
		if len(moved) == 0 {
			continue
		}
		ahead, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]int, error) {
			return s.countAhead(ctx, c, moved)
		})
		if err == nil { // otherwise the next read or extension shows it
			s.moved(moved, ahead)
		}
	}
	for part := range slices.Chunk(extend, maxAsked) {
		ahead, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]int, error) {
			return s.extendPlaces(ctx, c, part, short)
		})
		s.extended(part, ahead, err)
	}
}

// soon is call for at most a time.
func soon[T any](s *Store, d time.Duration, f work[T]) (T, error) {
	return callWithin(s.calls.Ctx, s, min(d, s.options.Timeout), f)
}

// readLocks reads the rows of the keys of waiters, without waiting for any.
func (s *Store) readLocks(ctx context.Context, c *sql.Conn, waiters []*waiter) (map[string]lockState, error) {
	states := make(map[string]lockState, len(waiters))
	for _, w := range waiters {
		states[w.request.Key] = lockState{}
	}
	where, args := s.dialect.in(oneColumn(slices.Sorted(maps.Keys(states))))
	clear(states)
	var key, owner []byte
	var l lockState
	err := eachRow(ctx, c, s.texts.readLocks+where, args, []any{&key, &owner, &l.kind, &l.left, &l.queuedLeft, &l.token, &l.age}, func() {
		l.owner = string(owner)
		states[string(key)] = l
	})
	return states, err
}

func oneColumn(keys []string) [][][]byte {
	rows := make([][][]byte, len(keys))
	for i, key := range keys {
		rows[i] = [][]byte{[]byte(key)}
	}
	return rows
}

// answered wakes the waiters who may get their locks, or counts the failure of a read. It returns those
// whose keys were granted to others since the read before, so that fewer waiters may be ahead.
func (s *Store) answered(waiters []*waiter, states map[string]lockState, short map[string]bool, err error) (moved []*waiter) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	now, told := time.Now(), make(map[string]bool) // keys of which a waiter was woken because the lock is free
	for _, w := range waiters {
		if err != nil {
			s.failedFor(w, err)
			w.pollAt = now.Add(w.retryDelay())
			continue
		}
		w.asked, w.lastAnswer, w.pollFailures = time.Time{}, now, 0
		key := w.request.Key
		l, exists := states[key]
		left := time.Duration(l.left) * time.Millisecond
		switch {
		case exists && l.owner == w.request.Owner:
			signal(w.wake)
		case !exists || l.kind != 0 || l.owner == "" || l.left < 0:
			if !told[key] {
				signal(w.wake)
			}
			told[key] = true
			left = s.options.PollInterval
		}
		if exists && l.queuedLeft < 2*ms(w.place) {
			short[key] = true
		}
		if exists && w.sees(l) && w.ahead > 0 && w.channel == "" {
			moved = append(moved, w)
		}
		w.pollAt = s.nextPoll(w, left)
	}
	return moved
}

// sees notes the grant that a read has found, and reports whether it is another one than before. A lock that has been held for
// much longer than the pace makes it slower. A clock that was set back makes no pace.
func (w *waiter) sees(l lockState) (changed bool) {
	changed = w.token != 0 && l.token != w.token
	if w.token == 0 {
		w.counted, w.since = w.ahead, l.token
	}
	w.token = l.token
	switch age := time.Duration(l.age) * time.Microsecond; {
	case age < 0:
		w.pace = 0
	case age > 2*w.pace:
		w.pace = age / 2
	}
	return changed
}

// moved notes how many places are before those of waiters.
func (s *Store) moved(waiters []*waiter, all map[string]int) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	for _, w := range waiters {
		ahead, ok := all[w.request.Owner]
		if !ok {
			continue
		}
		if grants := w.counted - ahead; grants > 0 && w.token > w.since {
			w.pace = time.Duration(w.token-w.since) * time.Microsecond / time.Duration(grants)
		}
		w.ahead, w.counted, w.since = ahead, ahead, w.token
		if at := s.nextPoll(w, w.place); at.Before(w.pollAt) {
			w.pollAt = at
		}
	}
}

// failedFor counts a failed request of the poller for a waiter, and ends its call if it has had no
// answer for too long. The caller holds mu.
func (s *Store) failedFor(w *waiter, err error) {
	w.pollFailures++
	w.extendAt = time.Now().Add(w.retryDelay())
	if isPermanent(err) || time.Since(w.lastAnswer) >= max(w.place, s.options.Timeout) {
		select {
		case w.failed <- err:
		default:
		}
	}
}

// extendPlaces extends the places of waiters and skips rows that others have locked. It returns, by owner, the number of
// live places before each place that exists. It extends the time for which keys may have places, where that ends soon.
func (s *Store) extendPlaces(ctx context.Context, c *sql.Conn, waiters []*waiter, short map[string]bool) (map[string]int, error) {
	groups := make(map[int64][]*waiter) // by the length of the place
	longest := int64(0)
	keys := make(map[string]bool)
	for _, w := range waiters {
		length := ms(w.place)
		groups[length] = append(groups[length], w)
		if short[w.request.Key] {
			keys[w.request.Key] = true
			longest = max(longest, length)
		}
	}
	if len(keys) > 0 {
		if err := s.execIn(ctx, c, s.texts.extendQueues, oneColumn(slices.Sorted(maps.Keys(keys))), 4*longest); err != nil {
			return nil, err
		}
	}
	for length, group := range groups {
		if err := s.execIn(ctx, c, s.texts.extendPlaces, placesOf(group), length); err != nil {
			return nil, err
		}
	}
	return s.countAhead(ctx, c, waiters)
}

// execIn runs a statement for a list of keys, or of keys and owners, with a number of ms after it.
func (s *Store) execIn(ctx context.Context, c *sql.Conn, text string, list [][][]byte, ms int64) error {
	where, args := s.dialect.in(list)
	text = strings.NewReplacer("{list}", where, "{ms}", s.dialect.placeholder(len(args)+1)).Replace(text)
	_, err := s.dialect.update(ctx, c, text, append(args, ms)...)
	return err
}

// placesOf returns the keys and the owners of waiters.
func placesOf(waiters []*waiter) [][][]byte {
	rows := make([][][]byte, len(waiters))
	for i, w := range waiters {
		rows[i] = [][]byte{[]byte(w.request.Key), []byte(w.request.Owner)}
	}
	return rows
}

// countAhead counts the live places before each place of a waiter that is there, by owner.
func (s *Store) countAhead(ctx context.Context, c *sql.Conn, waiters []*waiter) (map[string]int, error) {
	where, args := s.dialect.in(placesOf(waiters))
	all := make(map[string]int, len(waiters))
	var owner []byte
	var ahead int
	err := eachRow(ctx, c, s.texts.readAhead+where, args, []any{&owner, &ahead}, func() { all[string(owner)] = ahead })
	return all, err
}

// extended notes how many places are before those of waiters, and makes a waiter ask whose place is gone: it
// was granted the lock, or must enter again.
func (s *Store) extended(waiters []*waiter, all map[string]int, err error) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	for _, w := range waiters {
		switch ahead, ok := all[w.request.Owner]; {
		case err != nil:
			s.failedFor(w, err)
		case !ok:
			w.entered = false
			signal(w.wake)
		default:
			w.ahead = ahead
		}
	}
}
