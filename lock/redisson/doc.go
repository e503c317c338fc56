// Package redisson shares locks with Redisson, the Redis client for Java. A Go
// service that uses it and a Java service that uses Redisson exclude each other, and each wakes the
// waiters of the other. The package follows the format of Redisson 4.7, with scripts of its own.
//
// Use it to join a system that locks with Redisson. Otherwise use package redisstore, which promises
// more: all modes have order and fencing tokens, a dead waiter delays others by seconds, and all keys
// expire.
//
//	constructor                          class of Redisson            keys for the name n
//	New, KindLock, Client.Mutex          RLock                        n
//	New, KindFencedLock, Client.Mutex    RFencedLock                  n, redisson_lock_token:{n}
//	New, KindFairLock, Client.Mutex      RFairLock                    n, redisson_lock_queue:{n}, redisson_lock_timeout:{n}
//	New, KindLock, Client.RWMutex        RReadWriteLock               n, {n}:owner:rwlock_timeout:1
//	lock.Multi                           RMultiLock                   those of its members
//
//	class            promises                        loses
//	RLock            exclusion until the lease ends  order, fencing tokens
//	RFencedLock      and fencing tokens              order; the key of the token is never deleted
//	RFairLock        and order, without tokens       a killed waiter keeps its place; see Fair locks
//	RReadWriteLock   readers share                   order, fencing tokens; readers may starve writers
//	RMultiLock       all or none                     what its members lose
//
// The spin lock, the semaphores and the latch of Redisson are not served: they poll, or nothing renews
// them.
//
// The [protocol] page lists the schedules in which each class loses something.
//
// # Owners
//
// The owner of a lock has the form of Redisson, "uuid:number". Both are digests of the owner of the
// request. All owners of a lock.Client have the same uuid. The hold count on the server always is 1,
// because package lock counts reentrant holds itself, so a repeated request is harmless.
//
// # Waiting
//
// A waiter subscribes to the channel of Redisson and asks again after each message, and when the lease
// that the server reported has ended. It does not poll. Only an RFairLock has a queue on the server;
// see [driver.Description.Unordered]. If waiters get the lock only when
// leases end, compare [Options.Sharding] with the setting of the JVMs.
//
// # Fair locks
//
// A waiter of an RFairLock that is killed keeps its place until its place ends: after the rest of the
// lease, as of its last request, and Options.FairWait. If it is the first in the queue, nobody gets
// the lock until then, although the lock is free. Go waiters behind it ask every 30 seconds. A JVM that
// asks in that time gets the answer 0 ms, and asks again without a pause: one waiter of Redisson 4.7
// sends thousands of scripts per second. A shorter fairLockWaitTimeout in all processes limits both.
//
// A waiter of Redisson that gives up publishes nothing. If it was the first and the lock is free, a Go
// waiter behind it finds that out when it asks again, after at most 30 seconds.
//
// # Readers
//
// The lock of readers is one key, and a renewal of a JVM sets its expiry to lockWatchdogTimeout,
// whatever the leases of other readers. So a Go reader with a longer TTL could lose the lock to a
// writer without notice: a JVM renews and is killed, the lock expires, and a writer gets it before the
// next renewal of the Go reader. The package therefore refuses readers with a TTL above
// [Options.WatchdogTTL], and the change of a writer with more left into a reader, with ErrBadTTL. Such
// a lock.RWMutex.Downgrade releases the lock. Writers may have any TTL.
//
// # Clocks
//
// Redisson computes the ends of the places of an RFairLock with the wall clock of each JVM. This
// package uses the clock of the Redis server. A JVM whose clock is fast ends places early; one whose clock is slow ends them late. The TTLs of locks do not depend on clocks.
//
// # What Redisson does not see
//
// If the server may still get an earlier request of an owner, Release writes a tombstone, which refuses
// the owner for a minute, at leasewheel_tombstone:{n}:owner. The metadata of a holder or waiter are at
// leasewheel_metadata:{n}:owner, for at most a day. Redisson reads neither.
//
// Do not mix kinds at one name: to Redisson an RFairLock is a free RLock while its queue is not empty,
// and the RFencedLock and RLock of one name are the same lock with and without a token. An
// RReadWriteLock of Redisson takes over a name that an RLock holds; this package returns
// ErrWrongType. The names "n" and "{n}" share all keys but the lock itself. Package redlock uses the same
// key, so each package gets ErrWrongType while a lock of the other is held.
//
// # Cluster
//
// All keys and channels of a name must be in one slot. On a cluster the package refuses names whose
// braces prevent that with ErrBadKey, before any IO. As Redisson does, the package publishes with SPUBLISH on
// a cluster that knows it. Redis 7 and later do.
//
// # Keys that are not declared
//
// The leases of other readers, and the metadata that Inspect shows, are keys that no client can name in advance.
// So an RReadWriteLock and Inspect fail on a server that lets scripts touch only keys that are declared, as
// RReadWriteLock does in Redisson.
//
// # Rights
//
// A user needs the keys above, the channels redisson_* and the commands EVAL, EVALSHA, PING,
// SUBSCRIBE, UNSUBSCRIBE, PUBLISH, and those of the scripts; on a cluster also SSUBSCRIBE,
// SUNSUBSCRIBE, SPUBLISH and PUBSUB. Without the right to unsubscribe, each wait costs a connection.
//
// [protocol]: https://github.com/leasewheel/leasewheel/blob/main/docs/PROTOCOL.md#foreign-protocols
package redisson
