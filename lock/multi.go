package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Multi returns a lock that is several: it is got when all of them are, and what
// it holds ends when the first of them ends. They may be of any kinds, clients and
// stores.
//
// Lock waits for one of them and tries the others, in the order of their keys. If one
// of these is taken it gives all back, and waits for that one next. From the second
// time on it does not only try the others but then waits for each, for a random time of
// at most 250 ms and a round trip, so that it gets into their queues too. It never waits
// longer while it holds one: two Multis do not wait for each other for ever, in whatever
// order they name their locks, and no order has to be agreed upon. Nor is there any fairness
// beside that of its locks: where many want different sets that overlap, each may wait
// for long, and one lock for all of them serves better. TryLock tries each once, and
// gives all back if one is taken.
//
// When Lock or TryLock returns, each member has its whole TTL, less 1 % and one
// round trip: those whose lease began earlier are renewed before, as any renewal
// only if they are still held. A [Reentrant] that ctx has the ownership of is
// entered, and its lease left as it is.
//
// The handle is that of all. Its Done, Err and Valid tell of the first member that
// is lost; the others stay held, for the holder who needs time to stop, until
// Unlock. Unlock releases all at the same time and returns what went wrong with
// any. [Held.Members] has what differs: keys, tokens, deadlines.
//
// What was taken by a Lock or TryLock that fails is given back as Unlock would; if
// ctx has ended, in the background. Their errors are those of the member that was
// not got. A Multi without locks, and one that names a lock twice, which would
// wait for itself, are refused by Lock and TryLock: it knows a lock by its store
// and key, a [Batch] by its members too, and one of a type that is not of this package
// by being equal. A Multi within a Multi counts as its members.
func Multi(locks ...Locker) Locker {
	m := new(multi)
	for _, l := range locks {
		if inner, ok := l.(*multi); ok {
			m.locks = append(m.locks, inner.locks...)
			m.wrong = cmp.Or(m.wrong, inner.wrong)
			continue
		}
		m.locks = append(m.locks, l)
	}
	if m.wrong == nil {
		m.wrong = checkMembers(m.locks)
	}
	m.order = inOrder(m.locks)
	return m
}

// inOrder returns the indices of locks in the order of their keys; those of other making
// come first, as they were given. Nothing depends on it but the time that is lost: of
// those who want the same locks in opposite orders each would hold a part and wait for
// the rest, and when one gives its part back the next in the queue does the same.
func inOrder(locks []Locker) []int {
	order := make([]int, len(locks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		_, r := asks(locks[a])
		_, s := asks(locks[b])
		return cmp.Compare(r.Key, s.Key)
	})
	return order
}

// multi is what Multi returns.
type multi struct {
	locks []Locker
	order []int // in which they are asked for, by index
	wrong error // the answer to every Lock
}

// checkMembers names what is wrong with the locks of a Multi.
func checkMembers(locks []Locker) error {
	if len(locks) == 0 {
		return errors.New("lock: Multi has no locks")
	}
	seen := make(map[any]int, len(locks))
	for i, l := range locks {
		if l == nil {
			return fmt.Errorf("lock: lock %d of Multi is nil", i)
		}
		for _, id := range identities(l) {
			if !reflect.ValueOf(id).Comparable() {
				continue
			}
			if first, ok := seen[id]; ok {
				return fmt.Errorf("lock: lock %d of Multi is lock %d again, and would wait for it%s", i, first, whichKey(l))
			}
			seen[id] = i
		}
	}
	return nil
}

// whichKey is the end of an error that tells the key of a lock, where it is known.
func whichKey(l Locker) string {
	c, r := asks(l)
	if c == nil {
		return ""
	}
	return ": " + quoted(r.Key)
}

// lockID is equal for two Lockers that are the same lock, and for two batches as far
// as they have a member in common.
type lockID struct {
	store  any
	key    string
	member string
}

// identities returns what no two locks may have in common of which one would wait
// for the other.
func identities(l Locker) []any {
	c, r := asks(l)
	if c == nil || c.core == nil {
		return []any{l}
	}
	id := lockID{store: c.store, key: r.Key}
	if !reflect.ValueOf(c.store).Comparable() {
		id.store = c.core
	}
	members := r.Members()
	if members == nil {
		return []any{id}
	}
	ids := make([]any, len(members))
	for i, m := range members {
		ids[i] = lockID{id.store, id.key, m}
	}
	return ids
}

// asks returns which client a lock of this package asks for what, nil for others.
func asks(l Locker) (*Client, Request) {
	switch l := l.(type) {
	case *Mutex:
		if l != nil {
			return l.client, Request{Key: l.key}
		}
	case *Reentrant:
		if l != nil {
			return l.client, Request{Key: l.key}
		}
	case *RWMutex:
		if l != nil {
			return l.client, Request{Key: l.key}
		}
	case *reader:
		return asks((*RWMutex)(l))
	case *Semaphore:
		if l != nil {
			return l.client, Request{Key: l.key}
		}
	case *Election:
		if l != nil {
			return l.client, Request{Key: l.key}
		}
	case *Batch:
		if l != nil {
			return l.client, Request{Key: l.group, Extra: l.extra}
		}
	}
	return nil, Request{}
}

// Lock implements Locker.
func (m *multi) Lock(ctx context.Context) (*Held, error) {
	if m.wrong != nil {
		return nil, m.wrong
	}
	var next int
	var patience time.Duration
	for round := 0; ; round++ {
		held, failed, err := m.acquire(ctx, next, true, patience)
		var taken *HeldError
		switch {
		case err == nil:
			return held, nil
		case !errors.As(err, &taken) && !errors.Is(err, errStillTaken):
			return nil, err
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil, err
		case ctx.Err() != nil:
			return nil, refusal(ctx, err)
		}
		next, patience = failed, defaultBackoff(round)
	}
}

// TryLock implements Locker.
func (m *multi) TryLock(ctx context.Context) (*Held, error) {
	if m.wrong != nil {
		return nil, m.wrong
	}
	held, _, err := m.acquire(ctx, 0, false, 0)
	return held, err
}

// acquire gets all locks or none, beginning with the one that is first in the order,
// which it waits for if it is to; for each of the others it waits no longer than
// patience. It tells the place in the order of the lock that it did not get.
func (m *multi) acquire(ctx context.Context, first int, wait bool, patience time.Duration) (held *Held, failed int, err error) {
	got := make([]*Held, len(m.locks))
	defer func() {
		if held == nil { // also if a store has panicked: nobody could unlock what was got
			giveBack(ctx, got)
		}
	}()
	for i := range m.locks {
		place := (first + i) % len(m.locks)
		at := m.order[place]
		switch {
		case wait && i == 0:
			got[at], err = m.locks[at].Lock(ctx)
		case patience > 0:
			got[at], err = lockWithin(ctx, m.locks[at], patience)
		default:
			got[at], err = m.locks[at].TryLock(ctx)
		}
		if err == nil && !got[at].stands() {
			err = fmt.Errorf("lock: lock %d of Multi: %w", at, bareError{errNoHandle})
		}
		if err != nil {
			return nil, place, err
		}
	}
	if err := each(got, func(h *Held) error { return h.hold.refresh(ctx) }); err != nil {
		return nil, first, err
	}
	return newGroup(got), 0, nil
}

var errStillTaken = errors.New("it is still taken")

// lockWithin is Lock for a limited time, beyond that in which the store answers: one that
// is far away would never do so in time.
func lockWithin(ctx context.Context, l Locker, patience time.Duration) (*Held, error) {
	began := time.Now()
	if h, err := l.TryLock(ctx); err == nil || !errors.As(err, new(*HeldError)) {
		return h, err
	}
	limited, cancel := context.WithTimeout(ctx, patience+time.Since(began))
	defer cancel()
	h, err := l.Lock(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", errStillTaken, err)
	}
	return h, err
}

// giveBack unlocks what was got, and waits for that until ctx ends. Unlock has a
// bound of its own, and what it could not confirm goes on in the background.
func giveBack(ctx context.Context, got []*Held) {
	got = slices.DeleteFunc(got, func(h *Held) bool { return h == nil })
	if len(got) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = each(got, func(h *Held) error { return h.Unlock(ctx) })
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// each calls f for all handles at the same time and returns all errors.
func each(all []*Held, f func(*Held) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, h := range all {
		errs[i] = errExited // should f not return
		wg.Go(func() { errs[i] = f(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
