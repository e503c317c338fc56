// Package redsync has the interface of github.com/go-redsync/redsync/v4, release 4.18, and keeps
// locks in Redis in the same way. A program changes its imports and nothing else:
//
//	import (
//		"github.com/leasewheel/leasewheel/contrib/compat/redsync"                    // was github.com/go-redsync/redsync/v4
//		"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis/goredis/v9"   // was github.com/go-redsync/redsync/v4/redis/goredis/v9
//	)
//
// A pool of another client stays as it is, and redis.Adapt makes it a pool for this package:
//
//	rs := redsync.New(redis.Adapt(redigo.NewPool(pool))) // redigo is github.com/go-redsync/redsync/v4/redis/redigo
//
// Keys, values and expiries are the same, so processes with either import exclude each other. A
// service can be rolled out process by process, and back. A lock can even be released or extended by
// the other library, with WithValue.
//
// As there, a Mutex is not extended in the background: it expires unless the program calls Extend.
// Several pools are Redlock over a majority of independent servers.
//
// # What a program gains at once
//
//   - Calls return when their ctx ends. A client of go-redis waits for an answer even after that.
//   - A server that hangs delays Lock, Unlock and Extend by at most the share of the expiry that
//     WithTimeoutFactor sets, as long as a majority answers. No call waits longer than the expiry
//     for a majority that hangs, apart from further tries.
//   - A Lock that fails releases what it has acquired, even if its ctx has ended. What a server grants
//     later is released then.
//   - Unlock reaches the servers even if its ctx has ended.
//   - Requests of a mutex reach each server in their order. A late acquire cannot set the key after
//     its Unlock, and a late release cannot free a later Lock.
//   - A Mutex may be used by several goroutines at a time, such as one that calls Extend.
//   - Errors match those of package lock: [ErrTaken] matches lock.ErrNotAcquired, and [RedisError]
//     matches lock.ErrUnavailable.
//
// There is no notice of a loss, no queue and no fencing token. Package lock has them.
//
// # What differs
//
//	there                                    here                                    why
//	NewPool of redigo, rueidis, valkeygo,    goredis/v9 only; redis.Adapt takes      this module does not depend on
//	go-redis before v9                       the pools made there                    all clients
//	an expiry below 1 ms is tried            Lock and Extend return an error         Extend would delete the key
//	without pools Lock tries 32 times        an error at once, also for a nil pool   it cannot succeed
//	Unlock and Extend wait for all servers   at most for the expiry, and for less    a server may hang
//	                                         once a majority has answered
//	a ctx that has ended: Unlock sends       it is sent, in the background           the lock would stay until it expires
//	nothing
//	a Lock that finds the key with its own   the key stays                           the key belongs to another mutex
//	value of WithGenValueFunc deletes it
//	SetNXOnExtend sets the value "" for a    ErrExtendFailed                         two such mutexes would have the lock
//	mutex that was never locked
//	node indices after WithShufflePools are  those of New                            they name servers
//	those of the shuffled list
//	a nil DelayFunc or value function        the default                             there it panics
//	panics
//	a Lock whose ctx ends during its only    the errors of the servers that have     the others are not waited for
//	try returns the errors of all servers    answered, and that of ctx for others
//
// # Move on to package lock
//
// Package lock renews its locks, notifies the holder of a loss and waits with a ctx instead of a
// number of tries. Its store lock/redlock uses the keys of redsync, so a program can change one
// mutex at a time:
//
//	store, err := redlock.New(client, nil)        // several: quorumstore.New(store1, store2, store3)
//	locks, err := lock.New(store, nil)
//	held, err := locks.Mutex("orders").Lock(ctx)  // was rs.NewMutex("orders").LockContext(ctx)
//	defer held.Unlock(ctx)                        // no Extend: the client renews the lock
//
// Locks of lock/redlock have no queue and no fencing tokens, because the format has none. The native
// store lock/redisstore has both, under other keys. The page [how to migrate] has the steps.
//
// [how to migrate]: https://github.com/leasewheel/leasewheel/blob/main/docs/MIGRATION.md
package redsync
