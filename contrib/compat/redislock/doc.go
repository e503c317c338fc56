// Package redislock has the interface of github.com/bsm/redislock, release 0.10.0, and keeps locks
// in Redis in the same way. A program changes one import and nothing else:
//
//	import "github.com/leasewheel/leasewheel/contrib/compat/redislock" // was github.com/bsm/redislock
//
// Keys, values and expiries are the same, so processes with either import exclude each other. A
// service can be rolled out process by process, and back. The value of a key is the token with the
// metadata after it. ObtainMulti makes one such key for each of its keys, with the same value.
//
// As there, a Lock is not refreshed in the background: it expires unless the program calls Refresh.
//
// # What a program gains at once
//
//   - Calls return when their ctx ends. A client of go-redis waits for an answer even after that.
//   - If Obtain fails without an answer, or because its ctx has ended, what the server grants is
//     released in the background. Options.Token turns that off, because another holder of the token
//     may have the lock.
//   - Release reaches the server even if its ctx has ended.
//   - Errors match those of package lock: [ErrNotObtained] matches lock.ErrNotAcquired, and
//     [ErrLockNotHeld] matches lock.ErrNotHeld.
//   - LimitRetry is exact for concurrent callers.
//
// There is no notice of a loss, no queue and no fencing token. Package lock has them.
//
// # What differs
//
//	there                                       here                                  why
//	a ttl below 1 ms: an error of the server,   an error before any request           Refresh would delete the key
//	or Refresh deletes the key
//	a nil client or ctx panics                  an error                              the error names the key
//	ObtainMulti without keys: an error of the   an error before any request           the error says what is wrong
//	server
//	Keys returns the slice of ObtainMulti       a copy                                a change would move the lock
//	a ctx that ends during a second try:        joined with the error of the first    the reason is not lost
//	its error alone
//	a ctx that has ended: Release sends         it is sent, in the background         the lock would stay until it expires
//	nothing
//	a failed Obtain may leave the lock until    it is released in the background      nobody would know that it is held
//	it expires
//	tries begin at fixed intervals              the interval begins with the answer   a slow server gets no burst of tries
//
// # Move on to package lock
//
// Package lock renews its locks, notifies the holder of a loss and waits with a ctx instead of a
// strategy of retries. Its store lock/redlock uses the keys of redislock, so a program can change one
// lock at a time:
//
//	store, err := redlock.New(client, nil)
//	locks, err := lock.New(store, nil)
//	held, err := locks.Mutex("orders").TryLock(ctx)  // was locker.Obtain(ctx, "orders", ttl, nil)
//	defer held.Unlock(ctx)                           // no Refresh: the client renews the lock
//
// Locks of lock/redlock have no queue, no fencing tokens and no metadata. The native store
// lock/redisstore has all three, under other keys. The page [how to migrate] has the steps.
//
// [how to migrate]: https://github.com/leasewheel/leasewheel/blob/main/docs/MIGRATION.md
package redislock
