// The locks of certmagic, by name.

package certmagiclock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/lock"
)

// Options configure a Locker. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix begins the keys of the locks. The name that certmagic gives the lock follows.
	// Instances share locks if they have the same storage, so groups of instances with
	// different storages use different prefixes. The default is "certmagic/".
	Prefix string

	// Logger receives a warning when a lock is lost. Nil means slog.Default() at that time.
	// Nothing waits for it. The Logger of the client reports the loss as well, with its cause.
	Logger *slog.Logger
}

// Locker implements the interfaces Locker, TryLocker and LockLeaseRenewer of certmagic. Its
// methods are safe for concurrent use.
type Locker struct {
	client *lock.Client
	prefix string
	logger *slog.Logger
	names  names
}

// New returns a Locker that uses the Terms of the given client. It does no IO. A nil client is
// the error of Lock and TryLock.
func New(client *lock.Client, o *Options) *Locker {
	if o == nil {
		o = &Options{}
	}
	return &Locker{client: client, prefix: cmp.Or(o.Prefix, "certmagic/"), logger: logging.New(o.Logger)}
}

// Lock waits until it has the lock of the given name, or until ctx ends. Errors are those of
// [lock.Mutex.Lock].
func (l *Locker) Lock(ctx context.Context, name string) error {
	held, err := l.mutex(name).Lock(ctx)
	if err != nil {
		return fmt.Errorf("certmagiclock: lock %q: %w", name, err)
	}
	l.names.add(name, l.watch(name, held))
	return nil
}

// TryLock tries to get the lock without waiting for it to be free. It returns false and no error
// if the lock is taken. Errors are those of [lock.Mutex.TryLock], such as [lock.ErrUnavailable].
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	held, err := l.mutex(name).TryLock(ctx)
	switch {
	case errors.Is(err, lock.ErrNotAcquired) && ctx.Err() == nil:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("certmagiclock: try lock %q: %w", name, err)
	}
	l.names.add(name, l.watch(name, held))
	return true, nil
}

// Unlock releases the lock that Lock or TryLock of this Locker has acquired, on any
// goroutine. It waits for the store as long as [lock.Held.Unlock], whether or not ctx has
// ended. The error matches [lock.ErrLost] if the lock was lost before, and [lock.ErrNotHeld] if
// nobody has locked the name.
//
// If a lost lock was acquired again in this process before its first holder called Unlock,
// two calls are needed, and the second one releases the lock: a name does not show which of
// the holders has ended.
func (l *Locker) Unlock(ctx context.Context, name string) error {
	w := l.names.removeOldest(name)
	if w == nil {
		return fmt.Errorf("certmagiclock: unlock %q: %w", name, lock.ErrNotHeld)
	}
	if err := w.unlock(ctx); err != nil {
		return fmt.Errorf("certmagiclock: unlock %q: %w", name, err)
	}
	return nil
}

// RenewLockLease asks the store whether the lock is still held, and renews it. It does not use
// the duration, because the client renews the lock until Unlock: a longer lease would only
// make others wait for longer after a crash.
//
// certmagic calls it when it begins another try to get a certificate, so no work is under way.
// If the lock was lost, RenewLockLease therefore locks it again, for which it waits for at most a
// second. The error matches [lock.ErrNotAcquired] if another instance has it; certmagic then
// waits for its next try. Other errors are those of [lock.Held.Renew] and [lock.Mutex.Lock], ErrNotHeld
// if nobody has locked the name, and ErrLost if the name was locked again in this process after a
// loss, as long as the former holder has not called Unlock.
func (l *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	w, err := l.names.only(name)
	if err != nil {
		return fmt.Errorf("certmagiclock: renew %q: %w", name, err)
	}
	err = w.held.Renew(ctx, 0)
	if err != nil && errors.Is(w.held.Err(), lock.ErrLost) {
		err = l.lockAgain(ctx, name, w)
	}
	if err != nil {
		return fmt.Errorf("certmagiclock: renew %q: %w", name, err)
	}
	return nil
}

// giveBackTime is how long RenewLockLease waits for the release of a lock that was lost, which
// goes on in the background, before it lets another instance have it.
const giveBackTime = time.Second

// lockAgain replaces a lost lock.
func (l *Locker) lockAgain(ctx context.Context, name string, lost *watched) error {
	_ = lost.unlock(ctx) // gives back what the store may still have; the error is the loss
	held, err := lock.WaitAtMost(l.mutex(name), giveBackTime).Lock(ctx)
	if err != nil {
		return err
	}
	again := l.watch(name, held)
	if !l.names.replace(name, lost, again) { // Unlock was called meanwhile
		return errors.Join(lock.ErrNotHeld, again.unlock(ctx))
	}
	return nil
}

func (l *Locker) mutex(name string) *lock.Mutex { return l.client.Mutex(l.prefix + name) }
