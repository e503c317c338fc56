package lock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// RWMutex is a lock that any number of readers hold together, or one writer alone.
// Lock and TryLock, those of a [Locker], are for writing; RLock and TryRLock for
// reading.
//
// Each reader has a lease of its own, which is renewed, lost and given back by
// itself: a reader that has died keeps a writer waiting for one TTL, and nobody
// longer, however many others came and went meanwhile.
//
// Those that wait are served in the order in which they came. A reader that comes
// after a writer that waits, waits behind it, so writers are not starved; readers
// that stand one after another get the lock in one go. Neither TryLock nor TryRLock
// overtakes those that wait. Within a client they stand in a line, of which one writer
// asks the store at a time, or up to 64 readers, if no writer stands before them.
//
// A writer can become a reader, by Downgrade, with no other writer in between. A
// reader cannot become a writer: two that tried would wait for each other to stop
// reading, for ever. Unlock, Lock, and look again at what was read. Nor is it
// reentrant: who reads and calls RLock again waits behind a writer that came in
// between, and that waits for the first of the two. A [Reentrant] or [Mutex] of the
// same key gets ErrWrongType while the key is held for reading or writing, and the
// other way round.
//
// It holds no state: all of one key, in any process, are the same lock. Its methods
// are safe for concurrent use.
type RWMutex struct {
	client *Client
	key    string
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns the lock of readers and writers with the given key; see
// [Client.Mutex] for what a key may be.
func (c *Client) RWMutex(key string) *RWMutex {
	return &RWMutex{client: c, key: key}
}

// Lock waits until it has the lock for writing. Errors are those of [Mutex.Lock],
// and errors.ErrUnsupported of a store that knows no readers and writers.
func (m *RWMutex) Lock(ctx context.Context) (*Held, error) { return m.acquire(ctx, Write, true) }

// TryLock gets the lock for writing if nobody holds it or waits for it. If it is
// taken the error is a *HeldError, which matches ErrNotAcquired; the others are
// those of Lock.
func (m *RWMutex) TryLock(ctx context.Context) (*Held, error) { return m.acquire(ctx, Write, false) }

// RLock waits until it has the lock for reading. Errors are those of Lock.
func (m *RWMutex) RLock(ctx context.Context) (*Held, error) { return m.acquire(ctx, Read, true) }

// TryRLock gets the lock for reading if no writer holds it and nobody waits for it.
// Errors are those of TryLock.
func (m *RWMutex) TryRLock(ctx context.Context) (*Held, error) { return m.acquire(ctx, Read, false) }

// Key returns the key.
func (m *RWMutex) Key() string { return m.key }

func (m *RWMutex) acquire(ctx context.Context, mode Mode, wait bool) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, Request{Key: m.key, Mode: mode}, wait)
}

// RLocker returns the lock for reading as a [Locker]: its Lock is RLock, its TryLock
// TryRLock.
func (m *RWMutex) RLocker() Locker { return (*reader)(m) }

// reader is a RWMutex for reading.
type reader RWMutex

func (r *reader) Lock(ctx context.Context) (*Held, error)    { return (*RWMutex)(r).RLock(ctx) }
func (r *reader) TryLock(ctx context.Context) (*Held, error) { return (*RWMutex)(r).TryRLock(ctx) }

// Downgrade makes a reader of the writer whose handle is given, without another
// writer in between, and returns the reader's handle, with the same token. Readers
// that wait, up to the next writer, get the lock with it.
//
// The writer's handle ends when Downgrade begins to ask the store, as by Unlock: its
// Done is closed, its contexts end, its Err is ErrNotHeld. For from then on there may
// be other readers, whether or not an answer comes. The lease is renewed all the
// while, by one entry of the watchdog after the other.
//
// If Downgrade fails after that, nothing is held: what there may be is given back in
// the background. The error matches ErrLost if the lock was lost before, and
// ErrNotAcquired if ctx ended; one failure to reach the store is tolerated. If it is
// refused before, the writer's handle is as it was: a handle that is not that of a
// writer of this lock and client, one that was unlocked (ErrNotHeld), a ctx that has
// ended. To unlock the writer's handle after an error is right in any case.
func (m *RWMutex) Downgrade(ctx context.Context, h *Held) (*Held, error) {
	writer, err := m.writer(ctx, h)
	if err != nil {
		return nil, err
	}
	reader, err := writer.downgrade(ctx)
	if err != nil {
		return nil, failed("downgrade", m.key, err)
	}
	return reader, nil
}

// writer returns what a handle of a writer stands for, which then is used.
func (m *RWMutex) writer(ctx context.Context, h *Held) (*holding, error) {
	if m == nil || m.client == nil || m.client.core == nil {
		return nil, errZeroLock
	}
	refused := func(err error) (*holding, error) {
		return nil, failed("downgrade", m.key, err)
	}
	switch {
	case ctx == nil:
		return refused(errNilContext)
	case ctx.Err() != nil:
		return refused(refusal(ctx, nil))
	case !h.stands():
		return refused(ErrNotHeld)
	}
	s, ok := h.hold.(*holding)
	if !ok || s.client.core != m.client.core || s.key() != m.key || s.entry.Lease().Mode != Write {
		return refused(errNotTheWriter)
	}
	if !h.used.CompareAndSwap(false, true) {
		return refused(ErrNotHeld)
	}
	return s, nil
}

var errNotTheWriter = errors.New("the handle is not that of a writer of this lock and client")

// downgrade makes a reader of a writer. The entry of the reader takes the place of
// the writer's before the store is asked, so that the writer is not valid any more
// when other readers come.
func (s *holding) downgrade(ctx context.Context) (reader *Held, err error) {
	c := s.client
	if err := c.begin(); err != nil { // Close releases it
		return nil, err
	}
	defer c.done()
	ctx, stop := c.whileOpen(ctx)
	defer stop()
	lease := s.entry.Lease()
	lease.Mode = Read
	entry, err := s.entry.Pass(lease)
	if err != nil {
		ended := s.state()
		_ = s.unlock(ctx)
		return nil, cmp.Or(ended, err)
	}
	before := lease.Unanswered
	lease.Unanswered = true // if the store panics
	defer func() {
		if reader == nil {
			entry.Stop()
			c.cleaner.add(lease)
		}
	}()
	sent, unanswered, err := c.turn(ctx, lease)
	lease.Unanswered = before || unanswered
	if unanswered { // which its release has to say
		if next, failed := entry.Pass(lease); failed == nil {
			entry = next
		}
	}
	if err == nil && s.confirm(entry, sent) {
		return newHeld(c, entry), nil
	}
	return nil, refusal(ctx, cmp.Or(newHeld(c, entry).Err(), err))
}

// turn asks the store to turn a Write into a Read. It tells when that was sent, and
// whether some request got no answer.
func (c *core) turn(ctx context.Context, lease Lease) (sent time.Time, unanswered bool, err error) {
	for range 1 + tolerated {
		sent = time.Now()
		var got Lease
		got, err = c.store.Acquire(ctx, lease.Request)
		switch {
		case err == nil && got.Token != lease.Token: // a new one, which is of no use
			return sent, unanswered, &renewal.LostError{Reason: renewal.NotOwned}
		case err == nil && got.Sent.IsZero():
			return sent, unanswered, nil
		case err == nil:
			return got.Sent, unanswered, nil
		case errors.As(err, new(*HeldError)):
			return sent, unanswered, &renewal.LostError{Reason: renewal.NotOwned, Err: err}
		case ctx.Err() == nil && final(err):
			return sent, unanswered, err
		}
		unanswered = true
		if ctx.Err() != nil {
			break
		}
	}
	return sent, unanswered, err
}
