// Package lock provides distributed locks. A [Client] takes locks from a store, renews their
// leases while they are held, and notifies the holder of a loss before anybody else can get the
// lock.
//
//	store, err := redisstore.New(rdb, nil) // or memstore.New()
//	client, err := lock.New(store, nil)
//	defer client.Close(context.Background())
//
//	err = lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, held *lock.Held) error {
//		return work(ctx, held.Token()) // ctx ends if the lock is lost
//	})
//
// Without [Do], Lock and TryLock return a [Held], the handle of one acquisition.
//
// [Mutex], [Reentrant], [RWMutex], [Semaphore], [Batch], [Multi] and [Election] are the kinds of
// locks; each is a [Locker]. Package [driver] is for authors of stores. The [guide] helps to choose
// a lock and explains each error.
//
// # What a lease cannot promise
//
// A lock on another machine is a lease: it ends if its holder is cut off for longer than its TTL.
// [Held.Valid] and [Held.Err] are right at any instant, but the process may be paused right after
// it. If a late write must do no harm, let the resource compare [Held.Token]: see package [fence].
// The page [safety] lists the other assumptions.
//
// # Misuse and Close
//
// Misuse does not panic. Methods of a nil pointer or a zero value, a nil context and a nil
// argument return an error that names the mistake, and methods without an error zero values. A bad
// argument of a method that makes a lock, such as a key, is the error of its Lock, without IO. A
// call that the store does not support returns [errors.ErrUnsupported], every call after Close
// ErrClosed.
//
// [guide]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md
// [safety]: https://github.com/leasewheel/leasewheel/blob/main/docs/SAFETY.md
// [driver]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock/driver
// [fence]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock/fence
package lock
