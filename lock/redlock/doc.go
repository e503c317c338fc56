// Package redlock keeps locks on Redis in the format that redsync, bsm/redislock, redis-py and
// node-redlock share. Programs that use one of these libraries and programs that use this package
// exclude each other.
//
// A lock is a string with an expiry. Its value is the owner, a random text. It is taken by
// SET key value NX PX ttl, renewed by a script that compares the value and sets the expiry, and
// released by one that compares and deletes. The name of a lock is the name of the key.
//
//	store, err := redlock.New(rdb, nil)
//	client, err := lock.New(store, nil)
//	held, err := client.Mutex("report").Lock(ctx)
//
// The client renews its locks, and notifies a holder of a loss in time, as with package redisstore.
// Several stores make a quorum, as the libraries above do with several servers:
//
//	quorum, err := quorumstore.New(store1, store2, store3)
//
// # What the format cannot do
//
//   - There is no queue. A client that waits asks again after lock.Options.Backoff. The first client
//     that asks after a release gets the lock.
//   - There is no fencing token: lock.Held.Token returns 0.
//   - There are no metadata, and no MinHold. So Election.Leader and Observe show no names, and
//     Proclaim and Candidates return errors.ErrUnsupported.
//   - Locks have one mode, Exclusive: Mutex, Reentrant, Multi and Election work. RWMutex, Semaphore
//     and Batch return errors.ErrUnsupported.
//   - Inspect shows that a lock is held, also by another library, and a hash of its owner.
//
// Package redisstore has all of that. Its keys differ, so its locks do not exclude locks of this
// package.
//
// # Other keys
//
// If a client gives up a request that the server may still execute, Release writes a tombstone, which
// refuses that owner for a minute. Its key is in the slot of the lock.
// Other libraries ignore tombstones. A late request of such a library takes the lock until the TTL
// ends.
//
// # Servers
//
// A single server, a master behind Sentinel, or a cluster. Lua scripts must be allowed.
package redlock
