// Package quorumstore makes one store of several independent ones: a majority of them
// decides who holds a lock. It works while a minority is down, slow or cut off. The
// algorithm is Redlock, which counts within the validity time for renewals too.
//
//	store, err := quorumstore.New(store1, store2, store3)
//	client, err := lock.New(store, nil)
//
// # How it decides
//
// An Acquire asks all stores at the same time. It succeeds if more than half of them
// granted the lock, and less than its TTL has passed since the first request was sent. Of
// the TTL 1 % and 2 ms are taken off for clocks that differ. Each store has a fifth of the
// TTL to answer, at most 3 s, so that a store that hangs does not use up the TTL. The TTL
// must be five times as long as the slowest answer that should count.
//
// An Acquire without a majority gives its grants back at once, late grants too, in the
// background and in bounded number. The client tries again after its Options.Backoff,
// whose random times break the tie between clients that each got a minority.
//
// A renewal goes to all stores that hold the lease, and each store answers for itself. A
// majority of confirmations renews the lease. The lease is lost once too few stores are
// left for a majority. Anything else counts as no answer. A renewal does not wait for
// stores that can no longer change the outcome. A renewal takes nothing: a store that has
// lost its copy of a lock, or did not answer the Acquire, stays without a copy until the
// next Acquire.
//
// A permit of a semaphore with limit l needs ⌊n·l/(l+1)⌋+1 of n stores. With 3 stores that
// is all of them as soon as l > 1, so one store down stops semaphores.
//
// # What a quorum does not give
//
// There is no fencing token: Held.Token is 0. Each store counts its own tokens, two
// majorities may have only one store in common, and no combination of the tokens of one
// majority is above all combinations of an earlier one.
//
// A store that forgets its locks, in a restart or by eviction, can complete a second
// majority for the same lock. After a restart, keep a store without persistence away for
// the longest TTL in use (delayed restart).
//
// All clients must name the same stores. To change them, add or remove one store, and wait
// for the longest TTL after the last process with the old set has ended, before the next
// change. Two sets that differ by one store exclude each other; two sets that differ by two
// may not. Replacing a store in one step is a difference of two.
//
// The stores must fail independently, otherwise the majority is worth no more than one
// server: a master and its replica are one store. New refuses stores that share an address.
// A server with two names answers both stores with one token, if both also use the same
// prefix of keys. Acquire then finds out, by asking both for a lock with a random key, and
// returns an error from then on. An even number of stores is allowed and gains nothing over
// one store less: 4 stores survive one failure, as 3 do.
//
// The section [choose a store] of the guide compares a quorum with other stores.
//
// [choose a store]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#choose-a-store
package quorumstore
