package lock

import (
	"container/list"
	"context"
	"sync"
)

// lines are the calls of Lock of one client: a line for each key, first come first
// served. Only the head of a line asks the store. It leaves when it has the lock,
// so that the next one takes its place in the store's queue while the lock is held.
// So the store sees one waiter of a process and key, however many there are.
type lines struct {
	most int // calls in all lines

	mu sync.Mutex // guards all below
	n  int
	of map[string]*list.List // of the turns behind the head; an entry is a line
}

// turn is a call that waits behind the head.
type turn struct {
	// given is sent nil when the call has become the head, or the error with which
	// the head has failed.
	given chan error
}

func (l *lines) init(most int) {
	l.most = most
	l.of = make(map[string]*list.List)
}

// enter returns nil when the call is at the head of the line of a key: leave must
// then be called. The error is ErrTooMany, at once; the cause of ctx; or that with
// which the head failed.
func (l *lines) enter(ctx context.Context, key string) error {
	l.mu.Lock()
	if l.n >= l.most {
		l.mu.Unlock()
		return ErrTooMany
	}
	l.n++
	line, ok := l.of[key]
	if !ok {
		l.of[key] = list.New()
		l.mu.Unlock()
		return nil
	}
	t := &turn{given: make(chan error, 1)}
	place := line.PushBack(t)
	l.mu.Unlock()

	select {
	case err := <-t.given:
		return err
	case <-ctx.Done():
		return l.quit(ctx, key, place)
	}
}

// quit takes a call out of its line. If its turn has come meanwhile it goes to the
// next.
func (l *lines) quit(ctx context.Context, key string, place *list.Element) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-place.Value.(*turn).given:
		if err != nil {
			return err
		}
		l.next(key)
	default:
		l.of[key].Remove(place)
	}
	l.n--
	return context.Cause(ctx)
}

// leave lets the next call of the line have its turn.
func (l *lines) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	l.next(key)
}

// fail is leave with an error that every call of the line would meet, one after
// another: it is theirs too.
func (l *lines) fail(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	line := l.of[key]
	for place := line.Front(); place != nil; place = place.Next() {
		place.Value.(*turn).given <- err
		l.n--
	}
	delete(l.of, key)
}

// next makes the first of those that wait the head. The caller holds mu.
func (l *lines) next(key string) {
	line := l.of[key]
	first := line.Front()
	if first == nil {
		delete(l.of, key)
		return
	}
	line.Remove(first).(*turn).given <- nil
}

// len returns the number of calls in all lines.
func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
