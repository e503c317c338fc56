// Package natsstore keeps locks in a JetStream stream of NATS.
//
// A lock is the last message of a subject. A client gets the lock by publishing a message that the
// server accepts only if the subject has none, and renews it by publishing a message that the server
// accepts only after the last one. The TTL of the message is that of the lease, so the server removes
// a lease that is not renewed, by its own clock. The token is the sequence of the message that
// granted the lock. It comes from the stream and rises over all locks. A stream that was deleted and
// created again, or restored from a backup, begins with lower ones, and a resource that checks tokens
// then refuses the new holders: create such a stream with a FirstSeq above the last token.
//
// TTLs of messages are whole seconds. A lease is therefore rounded up, and the server removes it up
// to two seconds late: see [Store.TTLLimits]. The holder relies on the TTL that it asked for.
//
// The store is good for programs that run NATS already, with some hundred or thousand locks. Each
// renewal is a message that the stream stores and replicates. The store supports mode Exclusive only.
//
// A release sends a message of core NATS, outside of the stream, on the subject of the lock's waiters.
// Each process that waits for the lock subscribes to it, and asks again when the message arrives.
// The server has no queue, so the first process to ask gets the lock, and waiters are served in no
// order. A waiter also asks when the lease that it was told of has ended, and at least every two
// seconds. So a lost message, a holder that crashed, or a client that must not publish to these
// subjects delays a hand-over by about that.
//
// An account with permissions must publish and subscribe to the subjects of Options.Prefix: PREFIX.k.*
// for locks, PREFIX.x.* for owners that were given up, and PREFIX.w.* for waiters.
//
// Each server expires the messages of its replica by its own clock, counted from the time of the
// leader that stored them. So a new leader whose clock is ahead of that of the old one ends leases
// early by the difference. The clocks of the servers must agree to 1 % of the TTL plus
// renewal.Options.Margin: 0.3 s for a TTL of 30 s. NTP keeps that as a rule. With clocks that are
// further apart, pass the token to the resource.
//
// A stream with one replica loses its locks with its server. Use three or five. By default a NATS
// server syncs its files to the disk every two minutes, so a power failure of a majority forgets
// confirmed locks; set sync_interval to always where that matters.
package natsstore
