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

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxAsked    = 1000        // keys or places that one statement of the poller names
	minPatience = time.Second // the least bound of such a statement

	minPace = 10 * time.Millisecond // the least time between two reads of a key
)

// poller asks the database for all queued waiters of a store: whether their locks are free or were handed
// over, with one read for many keys, and to extend their places, with one statement for many that locks
// no row of a lock, but now and then one that skips the rows that others have locked. Its goroutine runs while there are queued waiters.
type poller struct {
	kick chan struct{}  // has an element if something may be due earlier
	runs sync.WaitGroup // of the goroutine

	mu      sync.Mutex           // guards all below, and the fields of waiter that name it
	waiters map[string]*waiter   // the calls of Wait, by owner
	queues  map[string]*ownQueue // by key
	running bool
	closed  bool // it never runs again
	turns   map[string]*turn
}

// turn is had by one waiter of a key at a time, which asks in a transaction. So the waiters of a process make one
// transaction wait for the row, and renewals of the holder wait for few others.
type turn struct {
	taken chan struct{} // has an element while a waiter has the turn

	// The mutex of the poller guards all below.
	n      int           // waiters that have the turn or want it
	failed chan struct{} // closed, and replaced, after a request without an answer
	err    error         // of the latest such request
}

// take waits for the turn of a key. It returns an error if the request of the waiter before has none: the
// next ones would wait as long. The returned function gives the turn back, with the error of the request.
func (p *poller) take(ctx context.Context, key string) (giveBack func(err error), err error) {
	p.mu.Lock()
	t := p.turns[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1), failed: make(chan struct{})}
		p.turns[key] = t
	}
	t.n++
	failed := t.failed
	p.mu.Unlock()
	leave := func(failure error) (latest error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if failure != nil {
			t.err = failure
			close(t.failed)
			t.failed = make(chan struct{})
		}
		if t.n--; t.n == 0 {
			delete(p.turns, key)
		}
		return t.err
	}
	select {
	case t.taken <- struct{}{}:
		return func(err error) {
			if isAnswer(err) || ctx.Err() != nil { // the waiter has given up
				err = nil
			}
			_ = leave(err)
			<-t.taken
		}, nil
	case <-failed:
		return nil, driver.NotSent.Error(leave(nil))
	case <-ctx.Done():
		_ = leave(nil)
		return nil, driver.NotSent.Error(context.Cause(ctx))
	}
}

func (p *poller) init() {
	p.kick = make(chan struct{}, 1)
	p.waiters, p.queues, p.turns = make(map[string]*waiter), make(map[string]*ownQueue), make(map[string]*turn)
}

// stop waits for the goroutine, which must be about to end.
func (p *poller) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.runs.Wait()
}

// ownQueue is the waiters of this store for one key, in the order of their places as far as that is known.
type ownQueue struct {
	key     string
	waiters []*waiter
	ahead   int // live places before the first of them
	pollAt  time.Time
	place   time.Duration // the longest of their places

	pace    time.Duration // for how long holders keep the lock lately; 0 if that is not known
	token   int64         // of the grant that the latest read has found; 0 before the first read
	counted int           // how many places were ahead when they were counted
	since   int64         // the token at that time
}

// placeItem is a place that is to be extended.
type placeItem struct {
	key, owner []byte
	w          *waiter
}

// lockState is what a row says of a lock.
type lockState struct {
	owner            string
	kind             int64
	left, queuedLeft int64 // ms until the lease, and the time for which the key may have places, end
	token, age       int64 // of the last grant; age in µs
}

// queued tells the poller of the answer to a request of a waiter that was sent at an instant, with the name of its
// channel. It reports whether this is the first place of the waiter.
func (s *Store) queued(w *waiter, sent time.Time, a answer, channel string) (first bool) {
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[w.request.Key]
	if q == nil {
		q = &ownQueue{key: w.request.Key, ahead: a.ahead, pollAt: sent.Add(time.Hour)}
		p.queues[q.key] = q
	}
	if !slices.Contains(q.waiters, w) {
		q.waiters, first = append(q.waiters, w), true
	}
	if a.entered {
		w.entered, w.ahead, w.number, w.channel = true, a.ahead, 0, channel
		w.extendAt = jittered(sent, w.extendEvery())
		if q.waiters[0] == w {
			q.ahead = a.ahead
		}
	}
	w.lastAnswer = time.Now()
	q.place = max(q.place, w.place)
	if q.pace == 0 {
		q.pace = time.Duration(a.age) * time.Microsecond
	}
	left := time.Duration(a.left) * time.Millisecond
	if a.guarded { // nobody tells that the transaction has ended
		left = s.options.PollInterval
	}
	if at := s.nextPoll(q, left); at.Before(q.pollAt) {
		q.pollAt = at
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

// unqueue removes a waiter from the queue of its key. The caller holds mu.
func (p *poller) unqueue(w *waiter) {
	q := p.queues[w.request.Key]
	if q == nil {
		return
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
	if len(q.waiters) == 0 {
		delete(p.queues, q.key)
	}
}

// nextPoll returns when the row of a key is read again: the sooner, the fewer waiters are before those of this store and
// the shorter holders keep the lock lately, and as soon as the lease in the way ends. With a channel on which
// waiters are told, only the latter.
func (s *Store) nextPoll(q *ownQueue, left time.Duration) time.Time {
	now := time.Now()
	at := now.Add(q.place)
	if q.waiters[0].channel == "" {
		at = jittered(now, s.pollEvery(q))
	}
	if end := now.Add(max(left, 0) + expiryDelay); q.ahead == 0 && end.Before(at) {
		at = end
	}
	return at
}

// pollEvery returns the time between two reads for the waiters of this store. The reads of all stores together are a small
// multiple of the hand-overs, because the time grows with the number of waiters before.
func (s *Store) pollEvery(q *ownQueue) time.Duration {
	ahead := time.Duration(min(q.ahead, 10_000))
	slow := s.options.PollInterval * (ahead + 1)
	if q.pace == 0 {
		return slow
	}
	return min(slow, max(q.pace*max(2*(ahead-1), 1)/8, minPace))
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
		keys, places, patience, next := p.due(time.Now())
		switch {
		case next.IsZero():
			return
		case len(keys) > 0 || len(places) > 0:
			s.pollDue(keys, places, patience)
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

// due returns the keys to be read, the places to be extended, how long a statement may take, and when the next
// ones are due, which is zero if there are no waiters. A place of 10 s survives a read and an extension without an
// answer. Places that are due soon are extended together with those that are due, and their keys read.
func (p *poller) due(now time.Time) (keys []string, places []placeItem, patience time.Duration, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queues) == 0 {
		p.running = false
		return nil, nil, 0, time.Time{}
	}
	next, patience = now.Add(time.Hour), time.Hour
	earliest := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	anyDue := false
	for _, q := range p.queues {
		for _, w := range q.waiters {
			anyDue = anyDue || !w.extendAt.After(now)
			earliest(w.extendAt)
			patience = min(patience, w.place/(2*pollsPerPlace))
		}
	}
	for _, q := range p.queues {
		for _, w := range q.waiters {
			if anyDue && w.extendAt.Before(now.Add(w.extendEvery()/2)) {
				places = append(places, placeItem{[]byte(q.key), []byte(w.request.Owner), w})
				w.extendAt = jittered(now, w.extendEvery())
				q.pollAt = now
			}
		}
		if !q.pollAt.After(now) {
			keys = append(keys, q.key)
			q.pollAt = now.Add(q.place) // until the answer says when
			for _, w := range q.waiters {
				if w.asked.IsZero() {
					w.asked = now
				}
			}
		}
		earliest(q.pollAt)
	}
	return keys, places, max(patience, minPatience), next
}

// pollDue reads keys and extends places. Places come last: in SQLite that may wait for another writer.
func (s *Store) pollDue(keys []string, places []placeItem, patience time.Duration) {
	short := make(map[string]bool) // keys whose time for places ends soon
	for part := range slices.Chunk(keys, maxAsked) {
		states, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]lockState, error) {
			return s.readLocks(ctx, c, part)
		})
		moved := s.answered(part, states, short, err)
		if len(moved) == 0 {
			continue
		}
		ahead, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]placeState, error) {
			states := make(map[string]placeState, len(moved))
			return states, s.countAhead(ctx, c, moved, states)
		})
		if err == nil { // otherwise the next read or extension tells
			s.moved(moved, ahead)
		}
	}
	for part := range slices.Chunk(places, maxAsked) {
		numbers, err := soon(s, patience, func(ctx context.Context, c *sql.Conn) (map[string]placeState, error) {
			return s.extendPlaces(ctx, c, part, short)
		})
		s.extended(part, numbers, err)
	}
}

// soon is call for at most a time.
func soon[T any](s *Store, d time.Duration, f work[T]) (T, error) {
	return callWithin(s.calls.Ctx, s, min(d, s.options.Timeout), f)
}

// readLocks reads the rows of keys, without waiting for any.
func (s *Store) readLocks(ctx context.Context, c *sql.Conn, keys []string) (map[string]lockState, error) {
	where, args := s.dialect.in(oneColumn(keys))
	states := make(map[string]lockState, len(keys))
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

// answered wakes the waiters who may get their locks, or counts the failure of a read. It returns the first place of each
// key that was granted to others since the read before, so that fewer waiters may be ahead.
func (s *Store) answered(keys []string, states map[string]lockState, short map[string]bool, err error) (moved map[string]placeItem) {
	p := &s.poller
	moved = make(map[string]placeItem)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		q := p.queues[key]
		if q == nil {
			continue
		}
		if err != nil {
			for _, w := range q.waiters {
				s.failedFor(w, err)
			}
			q.pollAt = now.Add(q.waiters[0].retryDelay())
			continue
		}
		for _, w := range q.waiters {
			w.asked, w.lastAnswer, w.pollFailures = time.Time{}, now, 0
		}
		l, exists := states[key]
		left := time.Duration(l.left) * time.Millisecond
		switch i := slices.IndexFunc(q.waiters, func(w *waiter) bool { return w.request.Owner == l.owner }); {
		case exists && i >= 0:
			signal(q.waiters[i].wake)
		case !exists || l.kind != 0 || l.owner == "" || l.left < 0:
			signal(q.waiters[0].wake)
			left = s.options.PollInterval
		}
		if exists && l.queuedLeft < 2*ms(q.place) {
			short[key] = true
		}
		if first := q.waiters[0]; exists && q.sees(l) && q.ahead > 0 && first.channel == "" {
			moved[key] = placeItem{[]byte(key), []byte(first.request.Owner), first}
		}
		q.pollAt = s.nextPoll(q, left)
	}
	return moved
}

// sees notes the grant that a read has found, and reports whether it is another one than before. A lock that has been held for
// much longer than the pace makes it slower. A clock that was set back makes no pace.
func (q *ownQueue) sees(l lockState) (changed bool) {
	changed = q.token != 0 && l.token != q.token
	if q.token == 0 {
		q.counted, q.since = q.ahead, l.token
	}
	q.token = l.token
	switch age := time.Duration(l.age) * time.Microsecond; {
	case age < 0:
		q.pace = 0
	case age > 2*q.pace:
		q.pace = age / 2
	}
	return changed
}

// moved notes how many places are before the first one of each key.
func (s *Store) moved(places map[string]placeItem, states map[string]placeState) {
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, item := range places {
		q, state := p.queues[key], states[string(item.owner)]
		if _, ok := states[string(item.owner)]; !ok || q == nil || q.waiters[0] != item.w {
			continue
		}
		if grants := q.counted - state.ahead; grants > 0 && q.token > q.since {
			q.pace = time.Duration(q.token-q.since) * time.Microsecond / time.Duration(grants)
		}
		q.ahead, item.w.ahead = state.ahead, state.ahead
		q.counted, q.since = q.ahead, q.token
		if at := s.nextPoll(q, q.place); at.Before(q.pollAt) {
			q.pollAt = at
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

// placeState is what the database says of a place that was extended.
type placeState struct {
	number int64
	ahead  int // of the first place of a key: live places before it
}

// extendPlaces extends places, except those that others have locked, and returns those that are there, by
// owner. It extends the time for which keys may have places, where that ends soon.
func (s *Store) extendPlaces(ctx context.Context, c *sql.Conn, places []placeItem, short map[string]bool) (map[string]placeState, error) {
	groups := make(map[int64][][][]byte) // by the length of the place
	longest := int64(0)
	keys := make(map[string]bool)
	for _, p := range places {
		length := ms(p.w.place)
		groups[length] = append(groups[length], [][]byte{p.key, p.owner})
		if short[string(p.key)] {
			keys[string(p.key)] = true
			longest = max(longest, length)
		}
	}
	if len(keys) > 0 {
		if err := s.execIn(ctx, c, s.texts.extendQueues, oneColumn(slices.Sorted(maps.Keys(keys))), 4*longest); err != nil {
			return nil, err
		}
	}
	states := make(map[string]placeState, len(places))
	first := make(map[string]placeItem)
	for length, group := range groups {
		if err := s.execIn(ctx, c, s.texts.extendPlaces, group, length); err != nil {
			return nil, err
		}
		where, args := s.dialect.in(group)
		var key, owner []byte
		var number int64
		err := eachRow(ctx, c, s.texts.readPlaces+where, args, []any{&key, &owner, &number}, func() {
			states[string(owner)] = placeState{number: number}
			if f, ok := first[string(key)]; !ok || number < states[string(f.owner)].number {
				first[string(key)] = placeItem{key: key, owner: owner}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return states, s.countAhead(ctx, c, first, states)
}

// execIn runs a statement for a list of keys, or of keys and owners, with a number of ms after it.
func (s *Store) execIn(ctx context.Context, c *sql.Conn, text string, list [][][]byte, ms int64) error {
	where, args := s.dialect.in(list)
	text = strings.NewReplacer("{list}", where, "{ms}", s.dialect.placeholder(len(args)+1)).Replace(text)
	_, err := s.dialect.update(ctx, c, text, append(args, ms)...)
	return err
}

// countAhead counts the live places before the first place of each key.
func (s *Store) countAhead(ctx context.Context, c *sql.Conn, first map[string]placeItem, states map[string]placeState) error {
	var list [][][]byte
	for _, f := range first {
		list = append(list, [][]byte{f.key, f.owner})
	}
	if len(list) == 0 {
		return nil
	}
	where, args := s.dialect.in(list)
	var owner []byte
	var ahead int
	return eachRow(ctx, c, s.texts.readAhead+where, args, []any{&owner, &ahead}, func() {
		states[string(owner)] = placeState{states[string(owner)].number, ahead}
	})
}

// extended sorts the queues by the places that the database has, and makes a waiter ask whose place is gone: it
// was granted the lock, or must enter again.
func (s *Store) extended(places []placeItem, states map[string]placeState, err error) {
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	queues := make(map[*ownQueue]bool)
	for _, item := range places {
		q := p.queues[string(item.key)]
		if q == nil || !slices.Contains(q.waiters, item.w) {
			continue
		}
		state, ok := states[string(item.owner)]
		switch {
		case err != nil:
			s.failedFor(item.w, err)
		case !ok:
			item.w.entered = false
			signal(item.w.wake)
		default:
			item.w.number = state.number
			item.w.ahead = state.ahead
			queues[q] = true
		}
	}
	for q := range queues {
		slices.SortStableFunc(q.waiters, func(a, b *waiter) int {
			if a.number == 0 || b.number == 0 { // not extended yet: it came later
				return cmp.Compare(b.number, a.number)
			}
			return cmp.Compare(a.number, b.number)
		})
		q.ahead = q.waiters[0].ahead
	}
}
