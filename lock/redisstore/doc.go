// Package redisstore keeps locks on one Redis server, or on the one that Sentinel
// names: the store of package lock that most programs want. A Redis Cluster is not
// served, nor a single node of one.
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
// A server that loses data (a crash without an AOF on disk, a failover to a
// replica that was behind) loses locks with it, and their holders are told at the
// next renewal, after another may have got them. Fencing tokens rise all the same,
// unless the clock of the server went back by more than ten minutes.
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
// None of them is ever without an end. What stands between the first { and the
// first } after it decides on which node of a cluster a key lies, so the keys of
// one lock lie together. No name makes one key out of two. This version queues
// nobody itself but serves those that do: on a release it passes the lock on and
// publishes that on the channel lw:<client>.
//
// Something else at lw:{n} is lock.ErrWrongType, and is left as it is.
//
// # Rights
//
// A user with access to ~lw:* and, since Redis 6.2, &lw:* needs
//
//	-@all +evalsha +eval +get +mget +set +del +exists +time +pttl +pexpire
//	+llen +lpop +lrem +zcard +zscore +zrem
//
// for this store, and for waiters, of whom this version has none, also
//
//	+publish +rpush +lindex +zadd +zrangebyscore
//
// For [Store.Inspect]: +lrange. A database other than 0 needs +select, a client
// with a name +client|setname (+client before Redis 7). Without +publish waiters
// are served later, when they ask.
//
// # Connections
//
// The store has a client of its own, made from the options of the one it is
// given, and closes only that. Taken over are the address, the Dialer, TLS, all
// kinds of credentials, the database, the client name, OnConnect, and how long
// connections live. Its own are the pools, and these, without which no promise
// could be kept: nothing is sent twice, and nothing but the ctx decides how long an
// answer may take. A dial takes at most one second and is tried once; a Dialer of
// yours, and that of go-redis for TLS, keeps its own bound. Hooks, limiters and
// client-side caches are left behind.
//
// A client made by redis.NewFailoverClient works, because its Dialer is what asks
// Sentinel for the master; it must stay open until the store is closed. For it
// connections live one second: that is how long, after a failover, the store may
// go on using an old master that still answers.
package redisstore
