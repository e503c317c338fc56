package crash

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match, in any tier")

// TestMutants checks that the tests find mistakes.
func TestMutants(t *testing.T) {
	mutant.InTests(t, []mutant.Tested{
		{
			Name: "renewals last twice as long", File: "lock/redisstore/lua/renew.lua",
			From: "local ttl, ms = args[1], tonumber(args[1])", To: "local ttl, ms = 2 * args[1], 2 * args[1]",
			Args: []string{"-test.run=TestKilledHolders"}, Shows: `killed .* was renewed after the kill`,
		},
		{
			Name: "locks have no expiry", File: "lock/redisstore/lua/tokens.lua",
			From: "redis.call('SET', KEYS[1], owner .. ' ' .. token_text, 'PX', ttl)",
			To:   "redis.call('SET', KEYS[1], owner .. ' ' .. token_text)",
			Args: []string{"-test.run=TestKillDuringAcquires"}, Shows: `keys without an expiry`,
		},
		{
			Name: "Valid waits for a timer", File: "renewal/entry.go",
			From: "return !e.w.clock.now().reached(e.deadline())", To: "return e.deadline().mono != distantPast",
			Args: []string{"-test.run=TestPausedHolders", "-test.count=10"}, Shows: "pausing .* was valid after another process had the lock",
		},
		{
			Name: "tokens repeat", File: "lock/redisstore/lua/tokens.lua",
			From: "token = math.max(tonumber(last) + 1, micros)", To: "token = tonumber(last)",
			Args: []string{"-test.run=TestPausedHolders"}, Shows: `pausing .* a stale write was accepted`,
		},
		{
			Name: "callers wait for the Logger", File: "internal/logging/logging.go",
			From: "h.queue.add(queued{h.next(), ctx, r})", To: "_ = h.next().Handle(ctx, r)",
			Args: []string{"-test.run=TestNobodyReadsTheLog"}, Shows: "a call of Renew has not returned|no report within|no process kept a lock",
		},
		{
			Name: "Close leaves the locks", File: "lock/client.go",
			From: "errRelease := c.releaser.Close(ctx, call, held)",
			To:   "errRelease := c.releaser.Close(ctx, call, held[:0])",
			Args: []string{"-test.run=TestTerminated"}, Shows: `locks are left`,
		},
		{
			Name: "a save does not look at the owner", File: "lock/redisstore/lua/save.lua",
			From: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then", To: "if redis.call('EXISTS', KEYS[1]) == 0 then",
			Args: []string{"-test.run=TestStoppedSavers"}, Shows: "was told [0-9]+ of token",
		},
	}, *mutantFlag, report)
}
