// Package natsstore keeps locks in a JetStream stream of NATS.
//
// A lock is the last message of a subject. A client gets the lock by publishing a message that the
// server accepts only if the subject has none, and renews it by publishing a message that the server
// accepts only after the last one. The TTL of the message is that of the lease, so the server removes
// a lease that is not renewed, by its own clock. The token is the sequence of the message that
// granted the lock. It comes from the stream and rises over all locks.
//
// TTLs of messages are whole seconds. A lease is therefore rounded up, and the server removes it up
// to two seconds late: see [Store.TTLLimits]. The holder relies on the TTL that it asked for.
//
// The store is good for programs that run NATS already, with some hundred or thousand locks. Each
// renewal is a message that the stream stores and replicates. The store has no queue: clients that
// wait for a lock ask again after lock.Options.Backoff. It supports mode Exclusive only.
//
// A stream with one replica loses its locks with its server. Use three or five. By default a NATS
// server syncs its files to the disk every two minutes, so a power failure of a majority forgets
// confirmed locks; set sync_interval to always where that matters.
package natsstore
