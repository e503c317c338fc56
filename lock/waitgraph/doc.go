// Package waitgraph finds deadlocks between the clients of a store: processes that wait for
// locks of each other. It is meant for operators and tools, and only reads. In a shell, leasewheel deadlocks prints the cycles.
//
//	cycles, err := waitgraph.Cycles(ctx, client, "orders:")
//	for _, c := range cycles {
//		log.Print(c)
//	}
//
// # What a cycle means
//
// The store knows which client holds a lock and which client waits for it. A [Cycle] is a chain
// of such waits that returns to its first client: A waits for a lock of B, and B waits for a
// lock of A. A client that waits for a lock that it holds itself is a cycle of length 1.
//
// A client usually is a process with many goroutines, and the store does not know which of them
// holds a lock. A cycle is a deadlock for certain if, in each of its clients, the goroutine that
// waits is the one that would unlock the lock that the previous client waits for. That is so if
// each client does one thing at a time. Otherwise the cycle is only possible: a second goroutine
// may hold that lock, may wait for nothing, and may unlock it soon. In particular, two
// goroutines of one process that contend for a mutex are a cycle of length 1, and harmless. A
// cycle that stays over several calls of [Cycles], with the same tokens, deserves a look.
//
// A deadlock ends by itself when one of its calls of Lock gives up because its ctx ends, or when
// one of its leases ends because it is Fixed, has a MaxHold or is not renewed. Nothing in this
// package ends one: [lock.Client.ForceRelease] does, and cancelling one of the calls is safer.
//
// # When a cycle was there
//
// The store cannot show all locks at one instant. Cycles therefore looks twice: at all locks,
// and then again at those that belong to a cycle. It returns a cycle only if each of its waiters
// waited at both looks and each of its leases, told apart by their tokens, was held at both. So
// there was an instant between the looks at which all of them were held, and all of the clients
// waited, unless one of them gave up and began to wait anew in the meantime. When Cycles
// returns, the cycle may be gone. A cycle that is always there is found by every call.
//
// # Kinds of locks
//
// The locks of one key are held by several clients if they are shared:
//
//   - A waiter for a Mutex, a Reentrant, an Election or an RWMutex needs all holders to leave,
//     because requests are granted in order. This includes a reader that queues behind a
//     writer. One holder that never leaves blocks it, so each holder is an edge.
//   - A waiter for a Semaphore or a Batch may need only some of the holders to leave. It counts
//     only if none of them can: if each holder is a client with a wait that counts itself. So a
//     deadlock of a Semaphore of which one permit is in use by a client that waits for nothing
//     is not reported, and rightly. A request that needs several permits, or members
//     of particular holders, may be deadlocked and still not be reported.
//
// # What is not seen
//
// Stores without a queue, such as package quorumstore, do not know their waiters. Of the holders
// of a key [lock.Client.Inspect] shows 16, and of its waiters 100; others are not looked at, and
// a Semaphore or Batch with more holders is left out. A client whose goroutines wait for one
// mutex has one place for all of them. A lease that another process took over with
// Client.Resume is shown under the client that acquired it. A process that has crashed counts
// until its leases have ended. A lock that a program takes in some other system, or a mutex of
// package sync, is not known.
package waitgraph
