package core

import "github.com/leasewheel/leasewheel/verify/internal/mutant"

// mutants are plausible mistakes. Most of them are known from other clients. Each breaks a
// promise of docs/SAFETY.md.
var mutants = mutant.List{
	{
		"unlocking the first handle releases the lock", "lock/held.go",
		"last = s.handles.Add(-1) == 0", "last = s.handles.Add(-1) >= 0",
	},
	{
		"the deadline counts from the answer of a renewal", "renewal/worker.go",
		"e.applyOutcome(outcome, err, b.sent, b.validities[i], now)", "e.applyOutcome(outcome, err, now, b.validities[i], now)",
	},
	{
		"the deadline counts from the answer of an acquire", "lock/acquire.go",
		"lease.Sent = sent", "lease.Sent = sent.Add(time.Since(sent))",
	},
	{
		"no allowance for clocks that drift", "renewal/timing.go",
		"return ttl - ttl/driftDivisor - p.margin(ttl)", "return ttl - p.margin(ttl)",
	},
	{
		"no margin", "renewal/timing.go",
		"return ttl - ttl/driftDivisor - p.margin(ttl)", "return ttl - ttl/driftDivisor",
	},
	{
		"Valid waits for a timer", "renewal/entry.go",
		"return !e.w.clock.now().reached(e.deadline())", "return e.deadline().mono != distantPast",
	},
	{
		"no timer at the deadline while a renewal is running", "renewal/entry.go",
		"\tdefault:\n\t\te.arm(now.until(e.deadline()))\n\t\tif e.state == waiting {", "\tdefault:\n\t\tif e.state == waiting {",
	},
	{
		"a renewal does not move the timer", "renewal/entry.go",
		"e.extendDeadline(sent, validity, now)\n\t\te.scheduleRenewal(e.w.opts.renewalAt(sent.mono, e.period, 0), now)\n\tcase outcome.IsLost()", "e.extendDeadline(sent, validity, now)\n\t\te.state = waiting\n\tcase outcome.IsLost()",
	},
	{
		"a reported loss is ignored", "renewal/entry.go",
		"\tcase outcome.IsLost():\n\t\te.recordErr(err)\n\t\te.lose(ReasonNotOwned)", "\tcase outcome.IsLost():\n\t\te.scheduleRenewal(e.w.opts.renewalAt(sent.mono, e.period, 0), now)",
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
		"\tcase e.state != renewing:\n\tcase now.reached(e.deadline()):\n\t\te.recordErr(err)\n\t\te.lose(ReasonExpired)\n", "\tcase e.state != renewing:\n",
	},
	{
		"an ended lease stays valid until its deadline", "renewal/entry.go",
		"\te.mono.Store(distantPast)\n\te.wall.Store(distantPast)\n", "",
	},
	{
		"a renewal may outlive its deadline", "renewal/worker.go",
		"timeout := min(cmp.Or(w.opts.Timeout, b.attemptTimeout), b.sent.until(b.deadline))", "timeout := cmp.Or(w.opts.Timeout, b.attemptTimeout)",
	},
	{
		"a lease is sent after its deadline", "renewal/entry.go",
		"\tif now.reached(e.deadline()) {\n\t\te.lose(ReasonExpired)\n\t\treturn false\n\t}\n\te.state = renewing", "\te.state = renewing",
	},
	{
		"an ended lease stays in the list of its lane", "renewal/entry.go",
		"\tif e.state == due {\n\t\te.list.remove(e)\n\t}\n\te.state = ended", "\te.state = ended",
	},
	{
		"the answers of a batch are shifted", "renewal/worker.go",
		"outcome := b.outcomes[i]", "outcome := b.outcomes[(i+1)%len(b.outcomes)]",
	},
	{
		"a failed renewal is repeated at once", "renewal/timing.go",
		"at := max(now.mono, sent.mono+int64(e.period-lingerFor(e.period)))", "at := now.mono",
	},
	{
		"the first renewal of an old grant leaves no time for a second", "renewal/timing.go",
		"\treturn left / 2\n", "\treturn left\n",
	},
	{
		"the end of a lease is not kept", "renewal/entry.go",
		"left := min(int64(validity), e.maxDeadline.mono-sent.mono, e.maxDeadline.wall-sent.wall)", "left := int64(validity)",
	},
	{
		"only the wall clock counts", "renewal/timing.go",
		"return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}", "wall := t.UnixNano() + wallStep.Load()\n\treturn instant{wall - c.base.UnixNano(), wall}",
	},
	{
		"only the monotonic clock counts", "renewal/timing.go",
		"return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}", "mono := int64(t.Sub(c.base))\n\treturn instant{mono, c.base.UnixNano() + mono}",
	},
	{
		"a jump of the clocks is not noticed", "renewal/monitor.go",
		"case step > m.tolerance || step < -m.tolerance:", "case step > 1<<62:",
	},
	{
		"a step back undoes a suspension", "renewal/entry.go",
		"deadline := e.deadline().tighter(now.clockOffset())", "deadline := instant{e.mono.Load(), min(e.wall.Load(), e.mono.Load()+now.clockOffset())}",
	},
	{
		"a step of the clock renews leases at their maximum deadline", "renewal/entry.go",
		"if e.state == waiting && !deadline.reached(e.maxDeadline) {", "if e.state == waiting {",
	},
	{
		"a loss is reported twice", "renewal/entry.go",
		"\te.finish(err)\n\te.w.reportLoss(e, err)", "\te.finish(err)\n\te.w.reportLoss(e, err)\n\te.w.reportLoss(e, err)",
	},
	{
		"Done is not closed", "renewal/entry.go",
		"\t\tclose(end.done)\n\t}\n\tfor a", "\t}\n\tfor a",
	},
	{
		"more renewals at a time than allowed", "renewal/worker.go",
		"if l.lingering || l.workers == w.opts.tuning.InFlight || w.closed {", "if l.lingering || w.closed {",
	},

	{
		"owners are reused", "lock/client.go",
		"return string(base64.RawURLEncoding.AppendEncode(owner, random[:]))", "return string(base64.RawURLEncoding.AppendEncode(owner, []byte{random[0] % 2}))",
	},
	{
		"a lock that was acquired without an answer is forgotten", "lock/acquire.go",
		"if a.remains != nothing || notReturned {", "if a.remains == something {",
	},
	{
		"no tombstone for a request that may arrive late", "lock/acquire.go",
		"Lease{Request: a.request, Unanswered: notReturned || a.remains == anything}", "Lease{Request: a.request}",
	},
	{
		"a release in the background is tried once", "lock/internal/storekit/releaser.go",
		"case len(again) == 0:", "case len(again) == 0 || !r.closed:",
	},
	{
		"Unlock does not stop the renewals", "lock/held.go",
		"lease, held := s.entry.Stop(nil)", "lease, held := s.entry.Lease(), s.entry.Err() == nil",
	},
	{
		"Unlock of a lost lock returns no error", "lock/held.go",
		"\t\ts.client.releaser.Add(lease)\n\t}\n\treturn err\n", "\t\ts.client.releaser.Add(lease)\n\t}\n\treturn nil\n",
	},
	{
		"Unlock of a lost lock lets a late request take it again", "lock/held.go",
		"if gone && !lease.Unanswered {", "if gone {\n\t\treturn err\n\t}\n\tif gone {",
	},
	{
		"Unlock of a lost lock does not release it", "lock/held.go",
		"\t\ts.client.releaser.Add(lease)\n\t}\n\treturn err\n", "\t}\n\treturn err\n",
	},
	{
		"a release without an answer is not repeated", "lock/held.go",
		"case call.Err() == nil && v != driver.NotExecuted:", "case call.Err() != nil:",
	},
	{
		"a release without an answer is forgotten", "lock/held.go",
		"\tc.releaser.Add(lease)\n\t\treturn fmt.Errorf", "\treturn fmt.Errorf",
	},
	{
		"the first failure ends a Lock", "lock/acquire.go",
		"const maxFailures = 1", "const maxFailures = 0",
	},
	{
		"Close does not release the locks", "lock/client.go",
		"errRelease := c.releaser.Close(ctx, call, held)", "errRelease := c.releaser.Close(ctx, call, held[:0])",
	},
	{
		"a fixed lease is renewed", "lock/acquire.go",
		"grant.Until = lease.Sent.Add(c.watchdog.Validity(lease.TTL))", "grant.Until = time.Time{}",
	},
	{
		"MaxHold has no effect", "lock/acquire.go",
		"\t\tgrant.Until = since.Add(c.terms.MaxHold)\n", "\t\tgrant.Until = time.Time{}\n",
	},
}

// rare mutants survive nearly all of 2,000 schedules. Tests of the packages catch them.
var rare = mutant.List{
	{
		"a failed early renewal is a loss", "renewal/entry.go",
		"\tif outcome.IsLost() {\n\t\te.recordErr(err)", "\tif outcome != Renewed {\n\t\te.recordErr(err)",
	},
	{
		"the answer to an early renewal revives", "renewal/entry.go",
		"\tif e.expireIfPast(now); e.state == ended {\n\t\treturn\n\t}\n\tif outcome.IsLost()", "\tif outcome.IsLost() && e.state != ended",
	},
	{
		"the deadline counts from the answer of an early renewal", "renewal/worker.go",
		"e.applyEarly(outcome, err, b.sent, b.validities[i], now)", "e.applyEarly(outcome, err, now, b.validities[i], now)",
	},
	{
		"steps of the clocks during a renewal are ignored", "renewal/entry.go",
		"\tsent = sent.tighter(now.clockOffset())\n", "\t_ = now\n",
	},
	{
		"a second try may leave no time for its answer", "renewal/timing.go",
		"at >= deadline.mono-e.minRetryWindow() {", "at >= deadline.mono {",
	},
	{
		"a turn is lost if it comes when its context ends", "lock/localqueue.go",
		"\t\tof.remove(t.call)\n\tdefault:\n\t\tof.waiters.Remove(place)\n\t}\n", "\t\tof.remove(t.call)\n\t\tl.calls--\n\t\treturn context.Cause(ctx)\n\tdefault:\n\t\tof.waiters.Remove(place)\n\t}\n",
	},
}
