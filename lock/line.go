package lock

import (
	"container/list"
	"context"
	"sync"
)

// lines are the calls of Lock of one client: a line for each key and family, first
// come first served. Only the head of a line asks the store; of those who can hold
// the lock together, readers and holders of permits, several do. They leave when
// they have the lock, so that the next ones take their places in the store's queue
// while the lock is held. So the store sees few waiters of a process and key, however
// many there are. Batches, of which most do not want the same, stand in no line:
// they are only counted.
type lines struct {
	most int // calls in all lines

	mu sync.Mutex // guards all below
	n  int
	of map[lineKey]*line
}

// lineKey names a line: readers and writers share one, of the mode Write.
type lineKey struct {
	key  string
	mode Mode
}

// line is the line of a key.
type line struct {
	mode   Mode      // of those that ask the store, at least one
	asking int       // how many do
	behind list.List // of the turns that do not yet
}

// turn is a call that waits behind those that ask.
type turn struct {
	client  *Client
	request Request
	ctx     context.Context
	given   chan given
}

// given ends the waiting of a turn.
type given struct {
	err  error // with which a call before it has failed
	held *Held // the lock, passed on by its holder; nil, without an error: the call may ask
}

// together bounds how many calls of one line ask the store at a time.
const together = 64

func (l *lines) init(most int) {
	l.most = most
	l.of = make(map[lineKey]*line)
}

func lineOf(r Request) lineKey {
	if r.Mode == Read {
		return lineKey{r.Key, Write}
	}
	return lineKey{r.Key, r.Mode}
}

// admits tells whether one more call may ask, beside those that do.
func (l *line) admits(r Request) bool {
	if l.asking == 0 {
		return true
	}
	switch r.Mode {
	case Read:
		return l.mode == Read && l.asking < together
	case Permit:
		return l.asking < min(r.Limit(), together)
	}
	return false
}

// enter waits until it is the call's turn. It returns nil and no error when the call may
// ask the store, and then leave, or fail, must be called. It returns a handle if the
// holder of the lock has passed that on to the call. The error is ErrTooMany, at once;
// the cause of ctx; or that with which a call before it failed.
func (l *lines) enter(ctx context.Context, c *Client, r Request) (*Held, error) {
	l.mu.Lock()
	if l.n >= l.most {
		l.mu.Unlock()
		return nil, ErrTooMany
	}
	l.n++
	if r.Mode == Members {
		l.mu.Unlock()
		return nil, nil
	}
	id := lineOf(r)
	of := l.of[id]
	if of == nil {
		of = new(line)
		l.of[id] = of
	}
	if of.behind.Len() == 0 && of.admits(r) {
		of.mode = r.Mode
		of.asking++
		l.mu.Unlock()
		return nil, nil
	}
	t := &turn{client: c, request: r, ctx: ctx, given: make(chan given, 1)}
	place := of.behind.PushBack(t)
	l.mu.Unlock()

	select {
	case g := <-t.given:
		return g.held, g.err
	case <-ctx.Done():
		return l.quit(ctx, id, place)
	}
}

// quit takes a call out of its line. If its turn has come meanwhile it goes to the
// next; but what it has got it has got.
func (l *lines) quit(ctx context.Context, id lineKey, place *list.Element) (*Held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[id]
	select {
	case g := <-place.Value.(*turn).given:
		if g.err != nil || g.held != nil {
			return g.held, g.err
		}
		of.asking--
	default:
		of.behind.Remove(place)
	}
	l.n--
	l.next(id)
	return nil, context.Cause(ctx)
}

// leave lets the next calls of the line have their turns.
func (l *lines) leave(r Request) {
	l.stay()
	l.move(r)
}

// stay counts out a call that has the lock, but lets nobody follow: the call keeps its
// place in front of the line until move.
func (l *lines) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
}

// move lets the next calls of the line have their turns.
func (l *lines) move(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := lineOf(r); l.of[id] != nil {
		l.of[id].asking--
		l.next(id)
	}
}

// fail is leave with an error that every call of the line would meet, one after
// another: it is theirs too. Those that ask already will see for themselves.
func (l *lines) fail(r Request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	id := lineOf(r)
	of := l.of[id]
	if of == nil {
		return
	}
	of.asking--
	for place := of.behind.Front(); place != nil; place = place.Next() {
		place.Value.(*turn).given <- given{err: err}
		l.n--
	}
	of.behind.Init()
	l.next(id)
}

// next lets those ask that may now. The caller holds mu.
func (l *lines) next(id lineKey) {
	of := l.of[id]
	for {
		first := of.behind.Front()
		if first == nil {
			break
		}
		t := first.Value.(*turn)
		if !of.admits(t.request) {
			break
		}
		of.mode = t.request.Mode
		of.asking++
		of.behind.Remove(first)
		t.given <- given{}
	}
	if of.asking == 0 {
		delete(l.of, id)
	}
}

// len returns the number of calls in all lines.
func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
