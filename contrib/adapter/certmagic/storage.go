// A storage of certmagic with other locks.

package certmagiclock

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/leasewheel/leasewheel/lock"
)

// Storage is a storage of certmagic with the locks of a Locker. The other methods are those of
// the storage that it wraps.
type Storage struct {
	certmagic.Storage // for its data; its own locks are not used
	locker            *Locker
}

// Wrap returns a storage that has its data in the given one, and its locks in the store of the
// client. All instances that share the data must share these locks: those that still use
// the locks of the storage are not excluded. Wrap does no IO.
func Wrap(storage certmagic.Storage, client *lock.Client, o *Options) *Storage {
	return &Storage{storage, New(client, o)}
}

// Lock is [Locker.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error { return s.locker.Lock(ctx, name) }

// TryLock is [Locker.TryLock].
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.locker.TryLock(ctx, name)
}

// Unlock is [Locker.Unlock].
func (s *Storage) Unlock(ctx context.Context, name string) error {
	return s.locker.Unlock(ctx, name)
}

// RenewLockLease is [Locker.RenewLockLease].
func (s *Storage) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	return s.locker.RenewLockLease(ctx, name, d)
}

// String describes the storage that is wrapped. certmagic logs it.
func (s *Storage) String() string { return fmt.Sprintf("%v, with locks of leasewheel", s.Storage) }
