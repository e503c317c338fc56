// RWMutex, and writers that become readers.

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// RWMutex is a lock that any number of readers or a single writer can hold.
//
// Waiters are served in order: a reader waits behind a writer that waits, and consecutive readers
// get the lock together. Within a client, one writer or up to 64 readers ask the store at a time.
//
// A reader cannot become a writer. An RWMutex is not reentrant, see [ErrHeldByContext]: a second
// RLock of a reader waits behind a writer that waits for the first.
type RWMutex struct {
	client *Client
	key    string
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns the lock of readers and writers with the given key; see [Client.Mutex].
func (c *Client) RWMutex(key string) *RWMutex {
	return &RWMutex{client: c, key: key}
}

// Lock is [Mutex.Lock] for writing.
func (m *RWMutex) Lock(ctx context.Context) (*Held, error) { return m.acquire(ctx, true, nil) }

// TryLock is [Mutex.TryLock] for writing.
func (m *RWMutex) TryLock(ctx context.Context) (*Held, error) { return m.acquire(ctx, false, nil) }

// RLock is Lock for reading.
func (m *RWMutex) RLock(ctx context.Context) (*Held, error) { return m.RLocker().Lock(ctx) }

// TryRLock is TryLock for reading: it fails if a writer holds the lock, or if anybody waits for it.
func (m *RWMutex) TryRLock(ctx context.Context) (*Held, error) { return m.RLocker().TryLock(ctx) }

func (m *RWMutex) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, KindWrite, driver.Request{Key: m.key, Mode: driver.Write}, wait, o)
}

// RLocker returns a [Locker] whose Lock and TryLock are RLock and TryRLock.
func (m *RWMutex) RLocker() Locker { return (*reader)(m) }

// reader is a RWMutex for reading.
type reader RWMutex

func (r *reader) Lock(ctx context.Context) (*Held, error)    { return r.acquire(ctx, true, nil) }
func (r *reader) TryLock(ctx context.Context) (*Held, error) { return r.acquire(ctx, false, nil) }

func (r *reader) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if r == nil {
		return nil, errZeroLock
	}
	return r.client.acquire(ctx, KindRead, driver.Request{Key: r.key, Mode: driver.Read}, wait, o)
}

// Downgrade turns the writer with the given handle into a reader, without another writer in
// between, and returns the handle of the reader, with the same token. Waiting readers before the
// next writer get the lock with it. The end of a Fixed lease does not move.
//
// The handle of the writer ends, as by Unlock, when Downgrade asks the store. If Downgrade fails
// after that, nothing is held, and the lock is released in the background. The error matches
// ErrLost if the lock was lost before, and ErrUnavailable if the store gave no answer twice.
//
// Downgrade is refused, and the writer's handle stays as it was, if the handle is not that of a
// writer of this lock and client, if it was unlocked (ErrNotHeld), if ctx has ended, or if the
// timer engine is full.
func (m *RWMutex) Downgrade(ctx context.Context, h *Held) (*Held, error) {
	if m == nil || !m.client.ok() {
		return nil, errZeroLock
	}
	writer, err := m.writer(ctx, h)
	if err != nil {
		return nil, failed("downgrade", m.key, err)
	}
	o := m.client.observe(KindRead)
	reader, reports, err := writer.downgrade(ctx, h)
	if err != nil {
		err = failed("downgrade", m.key, err)
	}
	if reports {
		writer.observed.downgraded(ctx, reader, err)
	}
	if err != nil {
		return nil, err
	}
	if o != nil {
		o.ctx, o.info.Key = ctx, m.key
		o.adopt(reader)
	}
	return reader, nil
}

// writer returns the lease of a writer's handle and marks the handle as used.
func (m *RWMutex) writer(ctx context.Context, h *Held) (*heldLease, error) {
	switch {
	case ctx == nil:
		return nil, basic.ErrNilContext
	case ctx.Err() != nil:
		return nil, m.client.verdict(ctx, nil, true)
	case !h.ok():
		return nil, ErrNotHeld
	}
	s, ok := h.handle.(*heldLease)
	if !ok || s.client.core != m.client.core || s.key() != m.key || s.entry.Lease().Mode != driver.Write {
		return nil, errNotTheWriter
	}
	if !h.used.CompareAndSwap(false, true) {
		return nil, ErrNotHeld
	}
	return s, nil
}

var errNotTheWriter = errors.New("the handle is not that of a writer of this lock and client")

// downgrade turns the writer with handle h into a reader. The entry of the reader replaces
// that of the writer before the store is asked, so the writer is no longer valid when
// other readers are admitted. reports means that the caller must report the end of the writer.
func (s *heldLease) downgrade(ctx context.Context, h *Held) (reader *Held, reports bool, err error) {
	c := s.client
	if !c.gate.Enter() { // Close releases it
		return nil, false, ErrClosed
	}
	defer c.gate.Leave()
	caller := ctx
	ctx, stop := c.whileOpen(caller)
	defer stop()
	lease := s.entry.Lease()
	before := lease.Unanswered
	lease.Mode, lease.Unanswered = driver.Read, true // while the request has no answer
	reports = s.observed.detach()                    // whether the lock is lost is known when the store has answered
	entry, err := s.entry.Replace(lease, lease.TTL)
	if err != nil {
		if ended := s.state(); ended != nil {
			_ = s.unlock(ctx, true)
			return nil, reports, ended
		}
		if reports {
			s.observed.watch(s)
		}
		h.used.Store(false) // the engine is full; the writer keeps the lock
		return nil, false, fmt.Errorf("%w: %w", errNotWatched, err)
	}
	returned := false
	defer func() {
		if reports && !returned {
			s.observed.watch(s) // it has ended
		}
		if reader == nil {
			entry.Stop(nil)
			c.releaser.Add(lease)
		}
	}()
	sent, unanswered, err := c.requestDowngrade(ctx, lease)
	returned = true
	lease.Unanswered = before || unanswered
	answered := func(l driver.Lease) driver.Lease {
		l.Unanswered = lease.Unanswered
		return l
	}
	if err == nil && entry.Update(renewal.Grant{Sent: sent}, answered) == nil { // the end of a Fixed lease does not move
		return newHeld(c, entry, lease), reports, nil
	}
	if ended := entryError(entry, c.terms); ended != nil {
		err = ended
	} else if lost := lossIn(err); lost != nil {
		entry.ReportLost(lost.Err) // counts it
	}
	return nil, reports, c.verdict(caller, err, false)
}

// requestDowngrade asks the store to turn a Write into a Read. It returns when the request
// was sent, and whether some request got no answer.
func (c *core) requestDowngrade(ctx context.Context, lease driver.Lease) (sent time.Time, unanswered bool, err error) {
	for range 1 + maxFailures {
		sent = time.Now()
		var got driver.Lease
		got, err = c.store.Acquire(ctx, lease.Request)
		switch v := driver.VerdictOf(err); {
		case err == nil && got.Token == lease.Token:
			if !got.Sent.IsZero() {
				sent = got.Sent
			}
			return sent, unanswered, nil
		case err == nil, v == driver.Taken: // a new grant does not count
			return sent, unanswered, &renewal.LostError{Reason: renewal.ReasonNotOwned, Err: err}
		case ctx.Err() == nil && v.IsFinal():
			return sent, unanswered, err
		}
		unanswered = true
		if ctx.Err() != nil {
			break
		}
	}
	return sent, unanswered, err
}
