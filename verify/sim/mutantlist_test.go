package sim

import "github.com/leasewheel/leasewheel/verify/mutant"

// mutants are mistakes that somebody could make, most of them seen in the field in
// other clients: each breaks a promise of docs/SAFETY.md.
var mutants = mutant.List{
	{
		"the first handle that goes gives the lock back", "lock/holding.go",
		"if s.handles.Add(-1) == 0 {", "if s.handles.Add(-1) >= 0 {",
	},
	{
		"the deadline counts from the answer of a renewal", "renewal/dispatch.go",
		"e.settle(outcome, err, b.sent, now)", "e.settle(outcome, err, now, now)",
	},
	{
		"the deadline counts from the answer of an acquire", "lock/acquire.go",
		"lease.Sent = sent", "lease.Sent = sent.Add(time.Since(sent))",
	},
	{
		"no allowance for clocks that drift", "renewal/options.go",
		"return ttl - ttl/driftPart - o.margin(ttl)", "return ttl - o.margin(ttl)",
	},
	{
		"no margin", "renewal/options.go",
		"return ttl - ttl/driftPart - o.margin(ttl)", "return ttl - ttl/driftPart",
	},
	{
		"Valid waits for a timer", "renewal/holder.go",
		"return !e.dog.clock.now().reached(e.deadline())", "return e.deadline().mono != ended",
	},
	{
		"no timer at the deadline while a renewal is under way", "renewal/entry.go",
		"\tdefault:\n\t\te.arm(now.until(e.deadline()))\n\t\tif e.state == waiting {", "\tdefault:\n\t\tif e.state == waiting {",
	},
	{
		"a renewal does not move the timer", "renewal/entry.go",
		"e.confirmed(sent, now)\n\t\te.wait(e.dog.nextRenewal(sent.mono, e.period), now)\n\tcase outcome == Lost", "e.confirmed(sent, now)\n\t\te.state = waiting\n\tcase outcome == Lost",
	},
	{
		"the word that a lease is lost is ignored", "renewal/entry.go",
		"\tcase outcome == Lost:\n\t\te.note(err)\n\t\te.lose(NotOwned)", "\tcase outcome == Lost:\n\t\te.wait(e.dog.nextRenewal(sent.mono, e.period), now)",
	},
	{
		"one failure is a loss", "renewal/entry.go",
		"limit > 0 && int(e.failures) >= limit", "limit > 0",
	},
	{
		"one failure too many is tolerated", "renewal/entry.go",
		"limit > 0 && int(e.failures) >= limit", "limit > 0 && int(e.failures) > limit",
	},
	{
		"failures in a row are counted over successes", "renewal/entry.go",
		"\te.failures = 0\n", "\t_ = now\n",
	},
	{
		"an answer after the deadline revives", "renewal/entry.go",
		"\tcase e.state != renewing:\n\tcase now.reached(e.deadline()):\n\t\te.note(err)\n\t\te.lose(Expired)\n", "\tcase e.state != renewing:\n",
	},
	{
		"what has ended stays valid to its deadline", "renewal/entry.go",
		"\te.mono.Store(ended)\n\te.wall.Store(ended)\n", "",
	},
	{
		"a renewal may outlive its deadline", "renewal/dispatch.go",
		"timeout = min(timeout, b.sent.until(b.deadline))", "timeout = max(timeout, 0)",
	},
	{
		"a lease is sent after its deadline", "renewal/entry.go",
		"\tif now.reached(e.deadline()) {\n\t\te.lose(Expired)\n\t\treturn false\n\t}\n\te.state = renewing", "\te.state = renewing",
	},
	{
		"a lease that ended stays in the list of its lane", "renewal/entry.go",
		"\tif e.state == due {\n\t\te.list.remove(e)\n\t}\n\te.state = over", "\te.state = over",
	},
	{
		"the answers of a batch are shifted", "renewal/dispatch.go",
		"outcome := b.outcomes[i]", "outcome := b.outcomes[(i+1)%len(b.outcomes)]",
	},
	{
		"a failed renewal is repeated at once", "renewal/entry.go",
		"at := max(now.mono, sent.mono+int64(e.period-gatherOf(e.period)))", "at := now.mono",
	},
	{
		"the first renewal of an old grant may take all its time", "renewal/entry.go",
		"\treturn left / 2\n", "\treturn left\n",
	},
	{
		"the end of a lease is not kept", "renewal/entry.go",
		"life := min(int64(e.life), e.latest.mono-sent.mono, e.latest.wall-sent.wall)", "life := int64(e.life)",
	},
	{
		"the wall clock alone", "renewal/clock.go",
		"return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}", "wall := t.UnixNano() + wallStep.Load()\n\treturn instant{wall - c.base.UnixNano(), wall}",
	},
	{
		"the monotonic clock alone", "renewal/clock.go",
		"return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}", "mono := int64(t.Sub(c.base))\n\treturn instant{mono, c.base.UnixNano() + mono}",
	},
	{
		"a jump of the clocks is not noticed", "renewal/watch.go",
		"case jump > w.tolerance || jump < -w.tolerance:", "case jump > 1<<62:",
	},
	{
		"a step back undoes a suspension", "renewal/entry.go",
		"deadline := e.deadline().agreed(now.lead())", "deadline := instant{e.mono.Load(), min(e.wall.Load(), e.mono.Load()+now.lead())}",
	},
	{
		"a step of the clock renews what is at its end", "renewal/entry.go",
		"if e.state == waiting && !deadline.reached(e.latest) {", "if e.state == waiting {",
	},
	{
		"a loss is told twice", "renewal/entry.go",
		"\te.finish(err)\n\te.dog.reportLoss(e.lease, err)", "\te.finish(err)\n\te.dog.reportLoss(e.lease, err)\n\te.dog.reportLoss(e.lease, err)",
	},
	{
		"Done is not closed", "renewal/entry.go",
		"\t\tclose(end.done)\n\t}\n\tfor a", "\t}\n\tfor a",
	},
	{
		"more renewals at a time than allowed", "renewal/dispatch.go",
		"if l.gathering || l.workers == w.opts.InFlight {", "if l.gathering {",
	},

	{
		"owners are used again", "lock/client.go",
		`return c.id + ":" + strconv.FormatUint(c.serial.Add(1), 36)`, `return c.id + ":" + strconv.FormatUint(c.serial.Add(1)%2, 36)`,
	},
	{
		"what was acquired without an answer is forgotten", "lock/acquire.go",
		"if a.left || a.unanswered {", "if a.left && !a.unanswered {",
	},
	{
		"no tombstone for a request that may come late", "lock/acquire.go",
		"Lease{Request: a.request, Unanswered: a.unanswered}", "Lease{Request: a.request}",
	},
	{
		"a release in the background is tried once", "lock/cleaner.go",
		"case done || left <= 0:", "case done || left > 0 || left <= 0:",
	},
	{
		"Unlock lets the renewals go on", "lock/holding.go",
		"if !s.entry.Stop() {", "if s.entry.Err() != nil {",
	},
	{
		"Unlock of a lost lock says nothing of it", "lock/holding.go",
		"\t\ts.client.cleaner.add(lease)\n\t}\n\treturn err\n", "\t\ts.client.cleaner.add(lease)\n\t}\n\treturn nil\n",
	},
	{
		"Unlock of a lost lock lets a late request take it again", "lock/holding.go",
		"if !gone || lease.Unanswered {", "if !gone {",
	},
	{
		"Unlock of a lost lock leaves it on the store", "lock/holding.go",
		"\t\ts.client.cleaner.add(lease)\n\t}\n\treturn err\n", "\t}\n\treturn err\n",
	},
	{
		"a release without an answer is not repeated", "lock/holding.go",
		"\tif ctx.Err() == nil {\n", "\tif ctx.Err() != nil {\n",
	},
	{
		"a release without an answer is forgotten", "lock/holding.go",
		"\tc.cleaner.add(lease)\n\treturn fmt.Errorf", "\treturn fmt.Errorf",
	},
	{
		"the first failure ends a Lock", "lock/acquire.go",
		"const tolerated = 1", "const tolerated = 0",
	},
	{
		"Close leaves the locks on the store", "lock/client.go",
		"errRelease := releaseAll(ctx, c.store, append(held, orphans...))", "errRelease := releaseAll(ctx, c.store, orphans)\n\t_ = held",
	},
	{
		"a fixed lease is renewed", "lock/acquire.go",
		"grant.Until = lease.Sent.Add(a.client.dog.Life(terms.TTL))", "grant.Until = time.Time{}",
	},
	{
		"MaxHold counts from nowhere", "lock/acquire.go",
		"\t\tgrant.Until = lease.Sent.Add(terms.MaxHold)\n", "\t\tgrant.Until = time.Time{}\n",
	},
}

// rare are met by none of 2,000 schedules, or nearly none. Tests of the packages see them.
var rare = mutant.List{
	{
		"what the clocks did during a renewal is not counted", "renewal/entry.go",
		"\tsent = sent.agreed(now.lead())\n", "\t_ = now\n",
	},
	{
		"a second try may come too late for its answer", "renewal/entry.go",
		"at >= deadline.mono-e.least() {", "at >= deadline.mono {",
	},
	{
		"a turn that comes at the end of its context is lost", "lock/line.go",
		"\t\tof.asking--\n\tdefault:\n\t\tof.behind.Remove(place)\n\t}\n\tl.n--\n\tl.next(id)", "\t\tof.asking--\n\t\tl.n--\n\t\treturn nil, context.Cause(ctx)\n\tdefault:\n\t\tof.behind.Remove(place)\n\t}\n\tl.n--\n\tl.next(id)",
	},
}
