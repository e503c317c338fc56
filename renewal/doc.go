// Package renewal keeps leases alive: it renews them before they expire, and it notifies the
// holder in time when a lease can no longer be relied on.
//
//	trusted until = sent + 99 % of the TTL − margin
//
// sent is the time at which the last confirmed request for the lease was sent. The lease cannot
// expire on the store before that, whatever happens to the answer, the network or the process. The
// rest of the package makes this cheap and early: one timer and no goroutine per lease, renewals in batches, a
// second attempt after a failed one, the holder notified at that time even if the store hangs or the
// engine stands still, and the cause of a loss.
//
// A lease is a right that a store grants for a limited time, its TTL, such as a lock. A
// [Watchdog] holds one [Entry] per lease and renews due leases through a [Renewer]. The package
// knows neither locks nor Redis. Package lock is built on it.
//
//	watchdog, err := renewal.New(engine, store, nil)
//	...
//	sent := time.Now() // before the request that grants the lease
//	...
//	entry, err := watchdog.Register(lease, renewal.Grant{TTL: ttl, Sent: sent})
//	...
//	select {
//	case <-entry.Done(): // lost: entry.Err() returns why
//	case <-work:
//		entry.Stop(nil)
//	}
//
// # Deadlines
//
// The end of trust is the deadline of a lease. The store cannot have begun to count before the
// request was sent, and the clocks may differ in rate by 1 %. [Policy.Margin] is the time to stop
// the work. A lease of 30 s with the default options:
//
//	0 s      10 s      20 s                    29.4 s     29.55 s    29.7 s   30 s
//	 |        |         |                         |          |          |      |
//	sent   renewal   second attempt,          deadline:   monitor    earliest end on
//	       sent      if the first one         Valid is    ends the   the store, by a
//	                 failed                   false,      entry if   clock 1 % fast,
//	                                          Done is     the timer  and by an exact
//	                                          closed      is late    clock
//	 |        |         |                         |          |          |      |
//	 |<period>|<period->|                         |<- grace >|          |      |
//	 |<-------------- validity ------------------>|<----- margin ------>|<drift>
//
// If a renewal sent at 10 s is confirmed, at whatever time, the drawing begins anew at that
// 10 s. The deadline is kept on the monotonic clock and on the wall clock, and the one with less time
// left decides, because the monotonic clock stops while a host is suspended.
//
// # Costs
//
// Each lease has one timer and no goroutine. The timer is set to the next renewal, and to
// the deadline from the moment the renewal is due. Goroutines exist only while batches
// are under way, at most four per lane. A renewal allocates nothing per
// lease.
package renewal
