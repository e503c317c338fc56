// This file is about Semaphore, the RPermitExpirableSemaphore of Redisson.

package redisson

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var (
	permitsAcquireScript = newScript("permits_acquire")
	permitsReleaseScript = newScript("permits_release")
	permitsExtendScript  = newScript("permits_extend")
	permitsCountScript   = newScript("permits_count")
)

// MaxPermits is the maximum number of permits of one call.
const MaxPermits = 1000

// Semaphore is an RPermitExpirableSemaphore. Each permit has an id, and ends with its lease or when it
// is released. Nothing renews permits, neither here nor in Redisson. The keys of a semaphore last
// until they are deleted. Its methods are safe for concurrent use.
//
// Each method can return driver.ErrBadKey, driver.ErrWrongType and driver.ErrStoreClosed, and the cause
// of ctx if that has ended. Any other error that its comment does not name means that the server gave
// no usable answer.
type Semaphore struct {
	store *Store
	key   string
}

// Semaphore returns the RPermitExpirableSemaphore of that name. It does no IO. The semaphore uses the
// connections of the store, and fails with driver.ErrStoreClosed after the store was closed.
func (s *Store) Semaphore(name string) *Semaphore { return &Semaphore{s, name} }

// TrySetPermits sets the number of permits if none was set, and reports whether it did. n must be at
// least 1.
func (m *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	if n < 1 {
		return false, failed("set the permits of", m.key, fmt.Errorf("the number must be at least 1, got %d", n))
	}
	set, _, _, err := m.count(ctx, n)
	if err != nil {
		return false, failed("set the permits of", m.key, err)
	}
	return set, nil
}

// Permits returns how many permits are free and how many are held. Both are 0 if no number was set.
func (m *Semaphore) Permits(ctx context.Context) (free, held int, err error) {
	_, free, held, err = m.count(ctx)
	if err != nil {
		return 0, 0, failed("count the permits of", m.key, err)
	}
	return free, held, nil
}

func (m *Semaphore) count(ctx context.Context, set ...any) (done bool, free, held int, err error) {
	reply, err := m.run(ctx, call{script: permitsCountScript, args: set})
	if err != nil {
		return false, 0, 0, err
	}
	items, ok := reply.([]any)
	numbers := make([]int64, len(items))
	for i, item := range items {
		var isNumber bool
		numbers[i], isNumber = item.(int64)
		ok = ok && isNumber
	}
	if !ok || len(numbers) != 3 {
		return false, 0, 0, rediskit.UnexpectedReply(reply)
	}
	return numbers[0] == 1, int(numbers[1]), int(numbers[2]), nil
}

// TryAcquire acquires n permits, from 1 to MaxPermits, and returns their ids. The permits end after
// lease, or only by Release if lease is 0. If too few permits are free, TryAcquire takes none and
// returns a *driver.HeldError. Its ExpiresIn is the time until the first lease ends, 0 if none of them
// ends. If the outcome is unknown, the permits are released in the background, or end with their
// lease.
func (m *Semaphore) TryAcquire(ctx context.Context, n int, lease time.Duration) (ids []string, err error) {
	p, err := m.newPermits(n, lease)
	if err != nil {
		return nil, m.acquireError(err)
	}
	ids, err = p.acquire(ctx)
	p.abandonAfter(ctx, err)
	return ids, m.acquireError(err)
}

// Acquire is TryAcquire, but waits until enough permits are free or ctx ends. Waiters have no order.
func (m *Semaphore) Acquire(ctx context.Context, n int, lease time.Duration) ([]string, error) {
	p, err := m.newPermits(n, lease)
	if err != nil {
		return nil, m.acquireError(err)
	}
	var ids []string
	name := m.store.options.Prefix + m.key
	err = m.store.tryUntilDone(ctx, name, semaphoreChannel(name), func() (time.Duration, error) {
		ids, err = p.acquire(ctx)
		var held *driver.HeldError
		if errors.As(err, &held) {
			if held.ExpiresIn == 0 {
				return maxSleep, nil
			}
			return held.ExpiresIn, nil
		}
		return 0, err
	})
	p.abandonAfter(ctx, err)
	return ids, m.acquireError(err)
}

func (m *Semaphore) acquireError(err error) error {
	if err == nil || errors.As(err, new(*driver.HeldError)) { // a HeldError names the key itself
		return err
	}
	return failed("acquire permits of", m.key, err)
}

// permits is one acquisition.
type permits struct {
	of    *Semaphore
	lease time.Duration
	ids   []string
}

func (m *Semaphore) newPermits(n int, lease time.Duration) (*permits, error) {
	switch {
	case n < 1 || n > MaxPermits:
		return nil, fmt.Errorf("the number of permits must be 1 to %d, got %d", MaxPermits, n)
	case lease != 0 && lease < time.Millisecond:
		return nil, fmt.Errorf("%w: the lease must be 0 or at least 1ms, got %v", driver.ErrBadTTL, lease)
	}
	p := &permits{of: m, lease: lease}
	for range n {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		p.ids = append(p.ids, hex.EncodeToString(id[:]))
	}
	return p, nil
}

// acquire tries once.
func (p *permits) acquire(ctx context.Context) ([]string, error) {
	args := []any{p.lease.Milliseconds()}
	raw, _ := rawIDs(p.ids)
	reply, err := p.of.run(ctx, call{script: permitsAcquireScript, args: append(args, raw...)})
	if err != nil {
		return nil, err
	}
	items, ok := reply.([]any)
	switch {
	case ok && len(items) == 1 && items[0] == int64(1):
		return p.ids, nil
	case ok && len(items) == 2 && items[0] == int64(0):
		if ms, ok := items[1].(int64); ok {
			return nil, &driver.HeldError{Key: p.of.key, ExpiresIn: max(millis(ms), 0)}
		}
	}
	return nil, rediskit.UnexpectedReply(reply)
}

// abandonAfter releases, in the background, the permits of an acquisition that has failed with err, if
// the server may have granted them. A request that is executed later still takes the permits, until
// their lease ends, or for ever if they have none.
func (p *permits) abandonAfter(ctx context.Context, err error) {
	s := p.of.store
	if err == nil || isPermanent(err) || ctx == nil || s.redis == nil {
		return
	}
	free := context.WithoutCancel(ctx)
	if s.redis.Begin(free) != nil {
		return
	}
	defer s.redis.End()
	s.redis.Go(func() { _ = p.of.Release(free, p.ids...) })
}

// Release releases permits. It returns ErrNotHeld if none or only some of them were held; it releases
// those that were.
func (m *Semaphore) Release(ctx context.Context, ids ...string) error {
	raw, err := rawIDs(ids)
	if err == nil {
		var reply any
		reply, err = m.run(ctx, call{script: permitsReleaseScript, args: raw})
		if err == nil {
			n, ok := reply.(int64)
			switch {
			case !ok || n < 0 || n > int64(len(ids)):
				err = rediskit.UnexpectedReply(reply)
			case n < int64(len(ids)):
				err = driver.ErrNotHeld
			}
		}
	}
	if err != nil {
		return failed("release permits of", m.key, err)
	}
	return nil
}

// Extend sets how long a permit lasts from now on, or that it ends only by Release if lease is 0. It
// returns ErrNotHeld if the permit is not held.
func (m *Semaphore) Extend(ctx context.Context, id string, lease time.Duration) error {
	raw, err := rawIDs([]string{id})
	if err == nil && lease != 0 && lease < time.Millisecond {
		err = fmt.Errorf("%w: the lease must be 0 or at least 1ms, got %v", driver.ErrBadTTL, lease)
	}
	if err == nil {
		var reply any
		reply, err = m.run(ctx, call{script: permitsExtendScript, args: append([]any{lease.Milliseconds()}, raw...)})
		if err == nil {
			var held bool
			if held, err = parseDone(reply); err == nil && !held {
				err = driver.ErrNotHeld
			}
		}
	}
	if err != nil {
		return failed("extend a permit of", m.key, err)
	}
	return nil
}

// rawIDs returns ids in the form of the server: 16 bytes.
func rawIDs(ids []string) ([]any, error) {
	if len(ids) == 0 || len(ids) > MaxPermits {
		return nil, fmt.Errorf("the number of ids must be 1 to %d, got %d", MaxPermits, len(ids))
	}
	raw := make([]any, len(ids))
	for i, id := range ids {
		text, err := hex.DecodeString(id)
		if err != nil || len(text) != 16 {
			return nil, errors.New("the id of a permit must have 32 hexadecimal digits")
		}
		raw[i] = text
	}
	return raw, nil
}

// run runs a script of the semaphore. It adds the keys, and the command that wakes waiters.
func (m *Semaphore) run(ctx context.Context, c call) (any, error) {
	name, err := m.store.nameOf(m.key)
	if err != nil {
		return nil, err
	}
	publish, err := m.store.publishCommand(ctx, name)
	if err != nil {
		return nil, err
	}
	c.keys = []string{name, permitsKey(name), semaphoreChannel(name)}
	c.args = append([]any{publish}, c.args...)
	reply, err := m.store.run(ctx, c, "")
	return reply.Value, err
}
