// Multi: acquiring several locks, all or none.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Multi returns a lock that consists of several locks, of any kind, client and store: all or none.
//
// Lock waits for one lock and tries the others, in the order of their keys. If one of these is
// taken, Lock releases all and waits for that one next. While it holds a lock, it waits for another
// one for at most 250 ms plus a round trip, so two Multis never deadlock. A Multi adds no fairness.
//
// When Lock or TryLock returns, each member has its whole TTL, less 1 % and one round trip; a
// Reentrant whose ownership ctx carries is entered. If Lock or TryLock fails, the acquired locks
// are released without their MinHold, and in the background if ctx has ended. The error is that of
// the member that was not acquired.
//
// The handle stands for all locks. Its Done, Err and Valid report the first that is lost; the
// others stay held until Unlock. Unlock and Renew ask for all locks at the same time and return all
// errors.
//
// A Multi without locks is refused, and one that names a lock twice: the same store and key, and
// for a Batch a common member. A Multi within a Multi counts as its members.
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
		m.wrong = checkLocks(m.locks)
	}
	m.order = orderByKey(m.locks)
	return m
}

// orderByKey returns the indices of locks in the order of their keys. Locks of other
// types come first, in the given order. The order affects only time: callers that want
// the same locks in opposite orders would each hold a part and wait for the rest.
func orderByKey(locks []Locker) []int {
	order := make([]int, len(locks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		_, r := requestOf(locks[a])
		_, s := requestOf(locks[b])
		return cmp.Compare(r.Key, s.Key)
	})
	return order
}

// multi is what Multi returns.
type multi struct {
	locks []Locker
	order []int // indices in the order of acquisition
	wrong error // the error of every Lock
}

// checkLocks returns an error that names the first bad lock of a Multi.
func checkLocks(locks []Locker) error {
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
				which := ""
				if of, ok := id.(lockID); ok {
					which = ": " + basic.Quote(of.key)
				}
				return fmt.Errorf("lock: lock %d of Multi is lock %d again, and would wait for it%s", i, first, which)
			}
			seen[id] = i
		}
	}
	return nil
}

// lockID identifies a lock, or one member of a batch.
type lockID struct {
	store  any
	key    string
	member string
}

// partsOfLocker returns the locks that a Locker consists of: those of a Multi, also of one
// within WaitAtMost, and otherwise the lock itself.
func partsOfLocker(l Locker) []Locker {
	switch l := l.(type) {
	case nil:
		return nil
	case limitedWait:
		return partsOfLocker(l.locker)
	case *multi:
		return l.parts()
	}
	return []Locker{l}
}

// parts returns the locks of all members.
func (m *multi) parts() (all []Locker) {
	for _, l := range m.locks {
		all = append(all, partsOfLocker(l)...)
	}
	return all
}

// identities returns the ids of a lock and of its parts. Two locks with a common id would wait
// for each other.
func identities(l Locker) (ids []any) {
	for _, part := range partsOfLocker(l) {
		c, r := requestOf(part)
		if !c.ok() {
			ids = append(ids, part)
			continue
		}
		id := lockID{store: c.store, key: r.Key}
		if !reflect.ValueOf(c.store).Comparable() {
			id.store = c.core
		}
		if r.Members() == nil {
			ids = append(ids, id)
		}
		for _, id.member = range r.Members() {
			ids = append(ids, id)
		}
	}
	return ids
}

// requestOf returns the client and the request of a lock of this package, and a nil
// client for other locks.
func requestOf(l Locker) (*Client, driver.Request) {
	switch l := l.(type) {
	case *Mutex:
		if l != nil {
			return l.client, driver.Request{Key: l.key}
		}
	case *Reentrant:
		return requestOf((*Mutex)(l))
	case *RWMutex:
		return requestOf((*Mutex)(l))
	case *reader:
		return requestOf((*Mutex)(l))
	case *Batch:
		if l != nil {
			return l.client, driver.Request{Key: l.key, Attrs: l.extra}
		}
	case *Semaphore:
		return requestOf((*Batch)(l))
	case *Election:
		if l != nil {
			return l.client, driver.Request{Key: l.key}
		}
	case limitedWait:
		return requestOf(l.locker)
	}
	return nil, driver.Request{}
}

// key returns the keys of all locks, as far as they are known.
func (m *multi) key() string {
	var keys []string
	for _, l := range m.parts() {
		if c, r := requestOf(l); c != nil {
			keys = append(keys, r.Key)
		}
	}
	return strings.Join(slices.Compact(keys), ", ")
}

// Lock implements Locker.
func (m *multi) Lock(ctx context.Context) (*Held, error) { return m.acquire(ctx, true, nil) }

// TryLock implements Locker.
func (m *multi) TryLock(ctx context.Context) (*Held, error) { return m.acquire(ctx, false, nil) }

// acquire is Lock or TryLock. With the observation of another Multi it reports nothing itself.
func (m *multi) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if m.wrong != nil {
		return nil, m.wrong
	}
	for _, at := range m.order { // misuse is refused before any IO
		if _, err := lockMember(ctx, m.locks[at], wait, onlyChecks); err != nil {
			return nil, err
		}
	}
	run := func(ctx context.Context) (*Held, error) {
		if wait {
			return m.lock(ctx, o)
		}
		held, _, err := m.round(ctx, 0, false, 0, o)
		return held, err
	}
	switch o {
	case onlyChecks:
		return nil, nil
	case nil:
		if o = m.observe(); o.hooks != nil {
			return o.call(ctx, m.key(), run)
		}
	}
	return run(ctx)
}

func (m *multi) lock(ctx context.Context, o *observation) (*Held, error) {
	var next int
	var timeout time.Duration
	for round := 0; ; round++ {
		held, failed, err := m.round(ctx, next, true, timeout, o)
		switch {
		case err == nil:
			return held, nil
		case ctx != nil && ctx.Err() != nil && errors.Is(err, causeOf(ctx)): // must come first, because the cause may be a *HeldError
			return nil, err
		case driver.VerdictOf(err) != driver.Taken && !errors.Is(err, errStillTaken):
			return nil, err
		case ctx.Err() != nil:
			return nil, verdict(ctx, err, true)
		}
		next, timeout = failed, defaultBackoff(round)
	}
}

// round acquires all locks or none. It starts with the lock at position first of the
// order, and waits for it if wait is set. For each of the others it waits at most timeout.
// On failure it returns the position of the lock that it did not acquire.
func (m *multi) round(ctx context.Context, first int, wait bool, timeout time.Duration, o *observation) (held *Held, failed int, err error) {
	got := make([]*Held, len(m.locks))
	defer func() {
		if held == nil { // also after a panic of a store
			giveBackAll(ctx, got)
		}
	}()
	for i := range m.locks {
		place := (first + i) % len(m.locks)
		at := m.order[place]
		switch {
		case wait && i == 0:
			got[at], err = lockMember(ctx, m.locks[at], true, o)
		case timeout > 0:
			got[at], err = lockWithin(ctx, m.locks[at], timeout, o)
		default:
			got[at], err = lockMember(ctx, m.locks[at], false, o)
		}
		if err == nil && !got[at].ok() {
			err = fmt.Errorf("lock: lock %d of Multi: %w", at, basic.Unprefixed(errNoHandle))
		}
		if err != nil {
			return nil, place, err
		}
	}
	if err := refreshAll(ctx, got); err != nil {
		return nil, first, err
	}
	for _, h := range got {
		h.complete()
	}
	return newMultiHandle(got), 0, nil
}

var errStillTaken = errors.New("it is still taken")

// lockWithin is Lock for a limited time. The measured time of an answer is added, so that
// distant stores have time to answer.
func lockWithin(ctx context.Context, l Locker, timeout time.Duration, o *observation) (*Held, error) {
	began := time.Now()
	if h, err := lockMember(ctx, l, false, o); err == nil || ctx.Err() != nil || driver.VerdictOf(err) != driver.Taken {
		return h, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout+time.Since(began), errStillTaken)
	defer cancel()
	h, err := lockMember(limited, l, true, o)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", errStillTaken, err)
	}
	return h, err
}

// giveBackAll unlocks the handles, without MinHold, and waits for that until ctx ends. Unlock
// has its own bound and retries in the background.
func giveBackAll(ctx context.Context, got []*Held) {
	got = slices.DeleteFunc(got, func(h *Held) bool { return h == nil })
	if len(got) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = forEach(got, func(h *Held) error { return h.giveBack(ctx) })
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// forEach calls f for all handles concurrently and returns the error of each.
func forEach(all []*Held, f func(*Held) error) []error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, h := range all {
		errs[i] = storekit.ErrExited // in case f does not return
		wg.Go(func() { errs[i] = f(h) })
	}
	wg.Wait()
	return errs
}
