package core

import "github.com/leasewheel/leasewheel/verify/internal/mutant"

// wideMutants are mistakes that wide schedules have found in the code, or that only they can find.
var wideMutants = mutant.List{
	{
		"only the engine reports the end of a lease", "renewal/timing.go",
		"min(margin/graceDivisor, maxGrace),", "min(margin/graceDivisor, maxGrace) + 1000*time.Hour,",
	},
	{
		"the close of the engine is not reported", "renewal/entry.go",
		"if e.stop(errEngineClosed, now) {", "if now.mono < 0 && e.stop(errEngineClosed, now) {",
	},
	{
		"a lock that was handed over with too little time is abandoned", "lock/acquire.go",
		"\t\t\tgot = short\n", "\t\t\terr = errTooLate\n",
	},
	{
		"a store sees the cause of the caller's context", "lock/client.go",
		"cancel(&endedError{caller.Err()})", "cancel(context.Cause(caller))",
	},
	{
		"the end of another client counts as its own end", "lock/errors.go",
		"\t\treturn ErrClosed\n\t}\n\treturn verdict(", "\t\treturn ErrClosed\n\t}\n\tif errors.Is(causeOf(caller), ErrClosed) {\n\t\treturn ErrClosed\n\t}\n\treturn verdict(",
	},
	{
		"a released lock is not kept", "lock/acquire.go",
		"hold := c.terms.MinHold; hold > 0 &&", "hold := c.terms.MinHold; hold > 1<<62 &&",
	},
	{
		"MinHold counts from the request", "lock/acquire.go",
		"keptUntil(lease, time.Now().Add(hold))", "keptUntil(lease, since.Add(hold))",
	},
	{
		"a released lock is kept for too long", "lock/acquire.go",
		"keptUntil(lease, time.Now().Add(hold))", "keptUntil(lease, time.Now().Add(2*hold))",
	},
	{
		"a lost lock is kept", "lock/held.go",
		"\t\tlease = notKept(lease) // the work", "\t\t_ = lease // the work",
	},
}
