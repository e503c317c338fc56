// Package zkstore is a lock store on Apache ZooKeeper 3.5 and later, with the client
// github.com/go-zookeeper/zk.
//
//	store, err := zkstore.New(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, nil)
//	locks, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second}})
//
// # What it is good at
//
// Use it where ZooKeeper is there already. A quorum of the ensemble confirms each grant, and no grant
// is lost with one server. The fencing token is the transaction that created the lock, so it rises for
// all keys together, and begins again if the servers lose their data. Waiters are served in their
// order, and a release wakes one of them, or the readers up to the next writer. A client that is closed
// gives back all of its locks at once.
//
// # What it is bad at
//
// Semaphores and batches are not supported. Locks are not kept after a release (Terms.MinHold), and
// cannot be resumed by another process. They have no states (Terms.StateTTL): a node of a state must
// outlive the session, and servers remove such a node after a time only with the setting
// extendedTypesEnabled, which is off by default. Each acquisition, release and renewal of a batch is a write
// to the log of the ensemble. A TryLock is refused also if another one that will be refused has not
// yet removed its node.
//
// All locks of a Store belong to its sessions, which its clients keep alive. After a crash of the
// process they last until the sessions expire: up to the session timeout, 40 s by default, whatever
// the TTL is. While the process runs, the Store removes each lease that nobody has renewed for its TTL.
//
// A server writes the end of a session as one transaction with the paths of all of its nodes, and no
// server can read one that exceeds jute.maxbuffer, 1 MiB by default. So a session gets nodes with
// paths of 400 kB at most: about 3,000 locks and places in queues with keys of 20 bytes. Then the
// Store opens another session, which lasts until Close, up to 32 of them, and refuses more locks.
// Each session is a connection, which maxClientCnxns of the servers counts.
//
// The longest TTL is half of the session timeout that the server grants, 20 s by default. The leader
// learns late what another server has heard of a session, and that server may die before. The Store
// grants and renews a lease only if the session lasts longer for certain, so after a process has
// stood still for long the first acquisition may take a sixth of the session timeout. The tickTime
// of the servers must be at most a sixth of it; that of the default settings is 2 s. If the session
// expires, all of its locks are lost together. If a server hangs or its address falls silent, the client tries
// the next one after two thirds of the session timeout, which is longer than any TTL. A call without
// an answer ends after 5 s and a sixth of the session timeout, also if its context lasts longer, and
// its error has the last error of the network.
//
// A name of a server is looked up at each attempt to connect, so servers may change their addresses, and
// names that are unknown do no harm while one server answers. If no lookup succeeds, the last addresses
// of the name are tried.
//
// With Options.Digest the nodes belong to a user. The root may exist already: the user needs the
// permissions read, create and delete for it, and none above it.
package zkstore
