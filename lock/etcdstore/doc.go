// Package etcdstore keeps locks in etcd. It supports Mutex, Reentrant, Multi and Election, with
// first-come-first-served waiters, fencing tokens, inspection, listing, metadata and states.
//
//	store, err := etcdstore.New(etcdClient, nil)
//	...
//	locks, err := lock.New(store, nil)
//
// The store needs etcd 3.4.31, 3.5.13 or newer: older leaders that have been replaced may still answer
// renewals, and revoke leases after a slow write to their disk. It uses leases and transactions, not
// the package concurrency of the client. Other kinds of locks, Terms.MinHold and Held.Export return
// errors.ErrUnsupported.
//
// # What the server keeps
//
// All locks of a store with the same TTL, rounded up to seconds, share one etcd lease, which one request renews. A lock is a
// key that is attached to this lease. Its value names the owner, which is a secret. Its create
// revision is the fencing token, so tokens rise over all releases, deletions and restarts. After a
// restore from a snapshot they begin again where it was taken: restore with etcdutl and its flags --bump-revision and
// --mark-compacted, or a resource that checks tokens refuses the new holders.
// A waiter has a key in the queue of its lock, and watches only the key before its own.
//
// A renewal of a batch is one keep-alive for each TTL in the batch, and one read-only transaction
// for each 128 locks, which shows locks that were deleted or taken away. Neither writes to the log of the
// server. To acquire a free lock, and to release it, costs one transaction each, which a majority writes to
// disk. Keep-alives go through at most two streams for each TTL, and all watches of a client through one.
//
// A state that a holder saves is a key with an etcd lease of its own. A save costs a read, a transaction
// that compares the lock, and a keep-alive, the first one the grant of a lease instead. The state
// lasts for its TTL, rounded up to seconds and to the shortest TTL of the server, and longer after the
// election of a leader. The server keeps old states until a compaction; see [locks in etcd].
//
// # Users
//
// The user of the client needs the permission readwrite for all keys with the prefix, and no other:
//
//	etcdctl role add locks
//	etcdctl role grant-permission locks --prefix=true readwrite leasewheel/
//	etcdctl user grant-role NAME locks
//
// # Deadlines
//
// The deadline of a holder counts from the sending of a keep-alive that was answered. A lock that is
// acquired later than the last keep-alive has two thirds of its TTL at first, at least. After the election of
// a leader, etcd counts the TTL of all leases again from the beginning, and others wait longer.
//
// A request whose answer is lost may have been executed. The store records it before it sends it, and
// removes the lock or the place that it may have got after a TTL at the latest, if the session is
// renewed for other locks.
//
// Each call ends after 5 s, or 15 s for a batch, if ctx does not end before. A Wait fails after two
// requests without an answer, of half a TTL and at most 5 s each. If the client has no connection, the
// error has the reason of the network.
//
// After a crash of its holder, a lock lasts for up to two TTLs, rounded up to seconds, and 2 s more,
// see [Store.Describe]; usually it is one TTL. Changes of the leader add to that. A lock that its
// holder no longer renews, such as one with Terms.Fixed, is removed when its TTL has passed
// and the session is renewed for other locks.
//
// # Faults
//
// A holder whose process is paused may still act after its lease has ended, as with any store, so
// pass the token to the resource. A paused leader breaks more, see below. Without a majority the
// server answers nothing, and locks end at their deadlines.
//
// The client of etcd notices a member that hangs without closing its connections only with
// Config.DialKeepAliveTime and DialKeepAliveTimeout, such as 10 s and 3 s. Set them, and
// give the client several endpoints. A renewal without an answer is sent again to another member.
// The client looks up names of endpoints each time when it dials, and needs one that it can reach. A call of the
// Store makes it dial at once. A dial to a silent address
// lasts 20 s, unless Config.DialOptions has grpc.WithConnectParams with another MinConnectTimeout.
//
// The program and the Store share the calls that the server allows on a connection, if
// --max-concurrent-streams bounds them. If the program uses them all, the Store loses its locks: give it a client of its own.
//
// A leader that is paused, such as one in a virtual machine, and goes on after the others have replaced it may
// revoke leases that its successor has renewed. Then only the token distinguishes two holders, until the next renewal
// of the first. Start such a member again instead of continuing it; see [locks in etcd].
//
// Closing the store revokes its leases, so everything that it still holds becomes free. An
// operator who revokes such a lease, or deletes a key, takes the locks away; the holders learn
// of it at their next renewal.
//
// [locks in etcd]: https://github.com/leasewheel/leasewheel/blob/main/docs/STORES.md#etcd
package etcdstore
