// Package redisstore keeps locks on a Redis server, on the master that Sentinel names,
// or on a Redis Cluster. It is the store of package lock that most programs need.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(rdb, nil)
//	client, err := lock.New(store, nil) // closes the store when it is closed
//
// # The server
//
// The server is Redis 5 or later, or Valkey. It must not evict keys (maxmemory-policy
// noeviction). Its clock may be slewed, but not stepped while locks are held, because
// leases expire by that clock. A server that is out of memory grants no new locks, but
// it still renews and releases the held ones.
//
// A server that loses data loses locks. This happens in a crash without an AOF on disk,
// and in a fail-over to a replica that was behind. Another client may get the lock before the
// holder learns of it, with a higher fencing token.
//
// The page [operations] describes how to set a server up and what its faults cause.
//
// # Keys
//
// A lock named n has keys that begin with lw:{n}, where lw: is [Options.Prefix]. All have an expiry and
// the same hash tag, the text between the first { and the next }, so a cluster keeps them on one node. Two
// lock names never share a key. The page [protocol] lists them.
//
// If lw:{n} holds a value of another kind, calls return driver.ErrWrongType and leave it
// as it is.
//
// # Members
//
// A request for the members of a group is one round trip, and so is its release. To acquire
// 10,000 members takes the server 5 to 10 ms, and it executes nothing else in that time. A release looks
// at the first 128 waiters of a group, and at 20,000 names of members in all. Waiters behind these bounds
// are granted nothing until some of the first waiters are granted, even if their members are free.
//
// # Waiting
//
// A Lock that finds the lock taken takes a place in its queue. The script that releases
// the lock hands it over to the first live place, and publishes a signal on the channel of the waiting
// client, lw:<client>. A hand-over costs two scripts, whatever the number of waiters.
//
// A store has one subscription for all its waiters, on a cluster too. It subscribes for
// the first waiter, and unsubscribes half a minute after the last one. It pings the
// server once a second, and reconnects after two seconds of silence. Waiters then ask the
// server what they have missed.
//
// Correctness does not depend on signals. A waiter polls three times in the length of a
// place ([Options.Place], 10 s at a TTL of 30 s). A poll extends the place, and finds a
// grant of which the signal was lost. If the waiter dies, its place expires and the
// waiters behind it are served.
//
// # Rights
//
// A user with access to ~lw:* and, since Redis 6.2, &lw:* needs for everything but waiting
//
//	-@all +evalsha +eval +get +mget +set +del +exists +time +pttl +pexpire
//	+llen +lpop +lrem +zcard +zscore +zrem
//
// and for waiting
//
//	+rpush +lindex +zadd +zrangebyscore
//
// A waiter notices a hand-over at once, and not only at its next poll, with
//
//	+publish +subscribe +unsubscribe +ping
//
// Locks in the modes Read, Write, Permit and Members need the first list and
//
//	+zadd +zcount +zrange +zrangebyscore +zrevrange +zscan +pexpireat
//	+hget +hset +hdel +hlen +hmget +hscan +unlink
//
// [Store.Inspect] needs +lrange, [Store.List] needs +scan, and [Options].Replicas needs
// +wait. With +info, [Store.List] notices that the server was restarted or replaced, and so does
// a loss that names its cause ([Store.ReportEvents]). A database other than 0 needs +select, and a
// client name needs +client|setname (+client before Redis 7). A cluster also needs
//
//	+cluster|slots +asking
//
// or +cluster before Redis 7.
//
// # Connections
//
// The store makes clients of its own from the options of the given one, and closes only
// its own. It takes over the address, the Dialer, TLS, all kinds of credentials, the
// database, the client name, OnConnect, and the maximum age of connections. It has up to 14 connections
// to a server, two of them for renewals alone; each is made when it is first used. The store also sends nothing twice, and only
// its own time bounds an answer, because the guarantees of locks depend on both. It does not take over
// hooks, limiters and client-side caches; [Options.Instrument] gets each client, and may add them:
//
//	redisstore.New(rdb, &redisstore.Options{Instrument: func(c *redis.Client) error { return redisotel.InstrumentTracing(c) }})
//
// The Dialer, the credentials and OnConnect run on goroutines of their own. A request that waits for
// a connection ends with its ctx, whatever these functions do. A function that never
// returns keeps its goroutine for ever, and [Store.Shutdown] then waits until its ctx ends.
// A link may be slow: an answer may take up to a third of the TTL, or a tenth if a connection must be opened first.
// Connections must support deadlines, which those through SSH do not.
//
// A request without an answer costs its connection, and the next one makes another. On Linux the kernel ends a
// connection whose peer acknowledges nothing for a third of Options.Timeout, at least 1 s. A firewall or a load balancer
// that forgets all connections therefore costs one try. Elsewhere, and behind a proxy that acknowledges for a dead
// server, a try ends after Options.Timeout. Requests that are queued behind a dead connection also wait for that time.
//
// A client made by redis.NewFailoverClient works, because its Dialer asks Sentinel for the
// master. That client must stay open until the store is closed. Its connections live for
// one second, so the store may use an old master that still answers for up to one second
// after a fail-over.
//
// # Cluster
//
// With a *redis.ClusterClient, each lock lies with all its keys on the master that serves
// its slot. The store has connections of its own to each node. It sends the
// renewals of each master separately: each master is a lane ([Store.Lane]) of the watchdog.
// A dead or hanging master therefore delays only the renewals of its own locks. The
// other masters serve on during a fail-over only if cluster-require-full-coverage is no.
//
// The store asks the addresses of the given client for the slots, or calls its
// ClusterSlots function. Its settings for reads from replicas have no effect, and NewClient
// is not called. The store asks again when a node redirects it (MOVED), does not serve
// (CLUSTERDOWN, READONLY, MASTERDOWN, LOADING), cannot be reached, or has not answered for a
// second. It then asks once a second until a node serves the slots. It also asks every half
// minute while a Lock is waiting. It follows MOVED and ASK up to four times for one request.
//
// While a slot moves to another node, acquires and releases of its locks wait (TRYAGAIN)
// for up to Options.Timeout. The store tries each again after pauses that double from 20 to
// 640 ms, at most ten times in 3 s. Renewals continue during the move: a lease with several keys
// is renewed key by key, because a script with a single key is executed wherever the key is. If a
// node that does not serve the slot yet answers that a key is missing, the state of the lease is
// unknown, not lost.
//
// A promoted replica may lack the last writes of its master; see the section on the
// server. A lease survives a fail-over if the replica serves by the lease's second renewal,
// one period after the first failed one.
//
// Do not pass the client of a single node of a cluster: all requests for slots of other
// nodes fail.
//
// [protocol]: https://github.com/leasewheel/leasewheel/blob/main/docs/PROTOCOL.md#keys
// [operations]: https://github.com/leasewheel/leasewheel/blob/main/docs/OPERATIONS.md
package redisstore
