// Package natsstore keeps locks in a JetStream stream of NATS.
//
// A lock is the last message of a subject. A client gets the lock by publishing a message that the
// server accepts only if the subject has none, and renews it by publishing a message that the server
// accepts only after the last one. The TTL of the message is that of the lease, so the server removes
// a lease that is not renewed, by its own clock. The token is the sequence of the message that
// granted the lock. It comes from the stream and rises over all locks. [CreateStream] lets a stream that
// was deleted begin above its last token. A stream that was restored from a backup has lower ones: a
// resource that checks tokens refuses the new holders, and an old holder may renew a lock of a new one.
// Restore only with all clients stopped, or create the stream anew.
//
// TTLs of messages are whole seconds. A lease is therefore rounded up, and the server removes it up
// to two seconds late: see [Store.Describe]. The holder relies on the TTL that it asked for.
//
// Each renewal is a message that the stream stores and replicates. The store supports mode Exclusive only.
//
// A release sends a message of core NATS, outside of the stream, on the subject of the lock's waiters.
// Each process that waits for the lock subscribes to it, and asks again when the message arrives.
// The server has no queue, so the first process to ask gets the lock, and waiters are served in no
// order. A waiter also asks when the lease that was reported to it has ended, and at least every two
// seconds. So a lost message or a holder that crashed delays a hand-over by about that.
//
// The state that a holder saves is the last message of another subject of the stream, with a TTL. The
// server accepts it only if the last message of the lock is still that of the holder, in the same step.
// A save is one message. After an unanswered save, or a repeated Acquire, it takes four requests more. Acquire and Wait of a lock with a
// state read it after the grant, and publish a small message that the
// leader refuses if the state has changed, because a leader that was replaced may still answer reads.
// States need room: MaxMsgSize of the stream, if it has one, and max_payload of the server must be 66 KiB or more.
//
// A user with permissions needs these, where PREFIX and STREAM are those of [Options]. New returns an error
// that names a right which is missing, except for those of List and CreateStream:
//
//	publish     PREFIX.k.*                          locks
//	            PREFIX.x.*                          owners that were given up, and states
//	            PREFIX.w.*                          releases, for waiters
//	            $JS.API.STREAM.INFO.STREAM
//	            $JS.API.STREAM.MSG.GET.STREAM
//	            $JS.API.CONSUMER.CREATE.STREAM.>    these three for List only
//	            $JS.API.CONSUMER.MSG.NEXT.STREAM.>
//	            $JS.API.CONSUMER.DELETE.STREAM.>
//	            $JS.API.STREAM.CREATE.STREAM        these two for CreateStream only
//	            $JS.API.STREAM.UPDATE.STREAM
//	subscribe   PREFIX.w.*                          releases
//	            _INBOX.>                            answers
//
// A stream, an account or a disk that is full refuses renewals like all messages. So the holders lose
// their locks, each at the end of its lease. Keep room for one message of each lock and for its next one,
// and the same for states.
//
// A Store has a connection of its own, like that of the program: what the program sends or receives does not
// delay locks. It reconnects without end, also where the connection of the program would give up: after
// two minutes, or after the same error of authentication twice. It looks up names of servers at each attempt.
// A silent server is noticed within 15 s. A call without a deadline ends after five seconds without an answer,
// and a batch after a minute. While the Store reconnects, a call waits and sends nothing.
//
// Each server expires the messages of its replica by its own clock, counted from the time of the
// leader that stored them. So a new leader whose clock is ahead of that of the old one ends leases
// early by the difference. The clocks of the servers must agree to 1 % of the TTL plus
// renewal.Policy.Margin: 0.3 s for a TTL of 30 s. NTP keeps that as a rule. With clocks that are
// further apart, pass the token to the resource.
//
// A stream with one replica loses its locks with its server. Use three or five. A power failure of a majority forgets
// confirmed locks unless sync_interval of the servers is always.
package natsstore
