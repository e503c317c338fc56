// Package redisstore keeps locks on one Redis server, on the one that Sentinel
// names, or on a Redis Cluster: the store of package lock that most programs want.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(rdb, nil)
//	client, err := lock.New(store, nil) // closes the store when it is closed
//
// # The server
//
// Redis 5 or later, or Valkey. It must not evict keys (maxmemory-policy
// noeviction), and its clock may be slewed but not stepped while locks are held,
// because the server ends leases by its wall clock. A server that is out of memory
// grants no new locks; those that are held are renewed and released as ever.
//
// A server that loses data (a crash without an AOF on disk, a fail-over to a
// replica that was behind) loses locks with it, and their holders are told at the
// next renewal, after another may have got them. Fencing tokens rise all the same,
// unless the clock of the server, or of the replica that took over, is behind as well.
// Where no data is lost it may go back by ten minutes.
//
// docs/OPERATIONS.md says how to set a server up and what its faults do.
//
// # Keys
//
// A lock named n has these keys; lw: is [Options.Prefix].
//
//	lw:{n}           string      "owner token"; ends with the lease
//	lw:{n}:t         string      the last token; ends ten minutes after the moment it names
//	lw:{n}:q         list        owners that wait, in order   } end soon after
//	lw:{n}:w         sorted set  until when each of them lives } the last waiter
//	lw:{n}:x:<owner> string      for a minute: an acquisition that was given up
//
// In the first four an owner that gave metadata is "owner{metadata", in base64.
//
// A lock in another mode than Exclusive, of an RWMutex, a Semaphore or a Batch, has
// instead
//
//	lw:{n}           sorted set  holders by the end of their leases; ends with the last
//	lw:{n}:q         sorted set  owners that wait, by ticket
//	lw:{n}:r         hash        what is known of holders and of those that wait
//	lw:{n}:k         hash        members, and who has them
//
// None of them is ever without an end. What stands between the first { and the
// first } after it decides on which node of a cluster a key lies, so the keys of
// one lock lie together. No name makes one key out of two.
//
// Something else at lw:{n} is lock.ErrWrongType, and is left as it is.
//
// # Members
//
// A request for members of a group is one round trip, and so is its release. It may
// have [lock.MaxMembers] members and [lock.MaxMemberBytes] of names. To acquire 10,000
// takes the server 5 to 10 ms, in which it serves nobody else; to renew them takes some
// 60 µs. Of those who wait for a group a release looks at the first 128, as far as they
// want 20,000 members together: who comes after them is not granted anything before some
// of them are, even if nobody is in its way.
//
// # Waiting
//
// A Lock that finds the lock taken takes a place in its queue. A release hands the
// lock over to the first place there, in the script that releases it, and publishes
// that on the channel of the waiter's client, lw:<client>: two scripts for a
// hand-over, however many wait, and nobody can come between. A store has one
// subscription for all its waiters, in a cluster too, made when the first one waits
// and ended half a minute after the last. It is pinged once a second and made anew
// when it has been silent for two; whoever waited meanwhile asks the server.
//
// Nothing depends on those messages. A waiter asks three times in the time that its
// place lasts ([Options.Place], 10 s for a TTL of 30 s), which keeps the place and
// finds out what no message told. When it dies its place ends, and those behind it
// are served. The lock that is handed over lasts for what is left of the place, and
// the waiter counts that from its own last request that was answered, not from the
// message: so a message that comes late, twice or not at all cannot give the lock to
// two.
//
// # Rights
//
// A user with access to ~lw:* and, since Redis 6.2, &lw:* needs
//
//	-@all +evalsha +eval +get +mget +set +del +exists +time +pttl +pexpire
//	+llen +lpop +lrem +zcard +zscore +zrem
//
// for all but waiting, and for that
//
//	+rpush +lindex +zadd +zrangebyscore
//
// and, so that a hand-over is noticed at once and not by the next poll,
//
//	+publish +subscribe +unsubscribe +ping
//
// Locks in the modes Read, Write, Permit and Members need beside the first of these
//
//	+zadd +zcount +zrange +zrangebyscore +zrevrange +pexpireat
//	+hget +hset +hdel +hlen +hkeys +hmget +unlink
//
// For [Store.Inspect]: +lrange. A database other than 0 needs +select, a client
// with a name +client|setname (+client before Redis 7). A cluster needs also
//
//	+cluster|slots +asking
//
// or +cluster before Redis 7.
//
// # Connections
//
// The store has a client of its own, made from the options of the one it is
// given, and closes only that. Taken over are the address, the Dialer, TLS, all
// kinds of credentials, the database, the client name, OnConnect, and how long
// connections live. Its own are the pools, and these, without which no promise
// could be kept: nothing is sent twice, and nothing but the ctx decides how long an
// answer may take. A dial takes at most one second and is tried once, for a renewal
// twice; a Dialer of yours, and that of go-redis for TLS, keeps its own bound. Hooks,
// limiters and client-side caches are left behind. A connection ends at what is no reply
// of RESP 2, and at one that announces more than any script of this package may answer.
//
// A client made by redis.NewFailoverClient works, because its Dialer is what asks
// Sentinel for the master; it must stay open until the store is closed. For it
// connections live one second: that is how long, after a fail-over, the store may
// go on using an old master that still answers.
//
// # Cluster
//
// With a *redis.ClusterClient each lock lies, with all its keys, on the master that
// serves its slot. The store has a client for each node, with pools of its own, and
// sends renewals to each master apart from the others: to the watchdog each is a
// lane ([Store.Lane]). So a master that is dead or hangs holds up the renewals of
// its own locks and of no others. If the others are to serve on until its replica
// has taken over, or for good, cluster-require-full-coverage must be no.
//
// The addresses of the given client are asked for the slots, or its ClusterSlots
// function; its settings for reading from replicas mean nothing here, and NewClient
// is not called. The store asks again when it is sent elsewhere (MOVED), when a node
// does not serve (CLUSTERDOWN, READONLY, MASTERDOWN, LOADING), cannot be reached, or
// has not answered for a second, and then once a second until it serves again or
// another does; and each half minute while somebody waits. It follows MOVED and ASK,
// four times for one request. While a slot is on its way to another node, acquires and
// releases of its locks wait (TRYAGAIN), for Options.Timeout at most; renewals go on.
//
// A replica that takes over may lack what its master wrote last: see above on
// servers that lose data. A lease that survives must find the replica serving by
// its second renewal, a period after the first that failed.
//
// To give the client of a single node of a cluster is a mistake: all requests but
// those for its own slots fail.
package redisstore
