// Package interop tests that the stores in foreign formats and the libraries that these formats
// come from exclude each other. Each test runs against the real library, in its own language and in
// a process of its own:
//
//	peer        language  library               store
//	redsync     Go        go-redsync/redsync    lock/redlock
//	redislock   Go        bsm/redislock         lock/redlock
//	redis-py    Python    redis.lock.Lock       lock/redlock
//	node        Node.js   redlock, ioredis      lock/redlock
//
// The tests need python3 with venv, and node with npm. They install the libraries of the versions in
// peers/ into the user's cache folder. If a runtime is missing, or its packages are out of reach, its
// tests are skipped, and the report after the last test shows it. The peers in Go are this test program
// itself.
//
// # Protocol of the peers
//
// A peer gets the address of the Redis server, host:port, as its argument, or those of a quorum with
// commas between them. The counters are on the first server. It reads requests from its
// standard input and writes one answer for each to its standard output. Both are lines of JSON. It
// ends when its input ends. The fields of a request:
//
//	do        hello, acquire, extend, release, rounds or watch
//	key       name of the lock
//	ttl       ms of a lease
//	wait      ms for which acquire waits; 0 tries once
//	n         of rounds: how many
//	counter   of rounds: name of a key
//
// The fields of an answer:
//
//	error     text of an unexpected error; the other fields are missing then
//	version   of hello: name and version of the library and of the runtime
//	held      acquire: the peer has the lock; extend and release: it had the lock
//	turns     of rounds: for each round the times at which the peer got the lock and began to release
//	          it, in Unix nanoseconds
//
// The request rounds takes and releases the lock n times, waiting each time. In each round the peer
// reads the counter and then sets it to one more, so two holders at a time lose an update. The request
// watch takes the lock and renews it, by what the library has for that, until release.
package interop
