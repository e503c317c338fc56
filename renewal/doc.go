// Package renewal keeps leases alive. A [Watchdog] holds one [Entry] per lease,
// renews those that are due in batches, and tells the holder when a lease may no
// longer be assumed held: before a store that keeps leases for their TTL could give
// it to another, even if that store hangs, errs or is out of reach.
//
// A lease is anything that a [Renewer] can renew. The package knows nothing of
// locks or of Redis; package lock stands on it.
//
//	dog, err := renewal.New(engine, store, nil)
//	...
//	sent := time.Now() // before the request that grants the lease
//	...
//	entry, err := dog.Register(lease, renewal.Grant{TTL: ttl, Sent: sent})
//	...
//	select {
//	case <-entry.Done(): // lost: entry.Err() says why
//	case <-work:
//		entry.Stop()
//	}
//
// # Deadlines
//
// A lease granted for a TTL by a request sent at one instant is trusted until
// that instant + 99 % of the TTL − a margin ([Options.Margin]): the server cannot have begun
// to count earlier, and the clocks may differ in rate by 1 %. Each confirmed
// renewal moves the deadline in the same way. The deadline is kept on the
// monotonic and on the wall clock, and the one that leaves less decides, because
// the monotonic clock stands still while a host is suspended.
//
// # Costs
//
// There is one timer per lease and no goroutine: a timer stands at the next
// renewal while the lease waits for it and at the deadline from the moment the
// renewal is due. Goroutines exist only while batches are under way, at most
// [Options.InFlight] per lane.
package renewal
