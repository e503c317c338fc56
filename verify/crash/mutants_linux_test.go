package crash

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

func TestMutants(t *testing.T) {
	mutant.InTests(t, []mutant.Tested{
		{
			Name: "renewals last twice as long", File: "lock/redisstore/lua/renew.lua",
			From: "local ttl = args[1]", To: "local ttl = 2 * args[1]",
			Args: []string{"-test.run=TestKilledHolders"}, Shows: `killed .* was renewed by the dead`,
		},
		{
			Name: "locks are without an end", File: "lock/redisstore/lua/tokens.lua",
			From: "redis.call('SET', KEYS[1], owner .. ' ' .. shown, 'PX', px)",
			To:   "redis.call('SET', KEYS[1], owner .. ' ' .. shown)",
			Args: []string{"-test.run=TestKilledAmidAcquires"}, Shows: `keys without an end`,
		},
		{
			Name: "Valid waits for a timer", File: "renewal/holder.go",
			From: "return !e.dog.clock.now().reached(e.deadline())", To: "return e.deadline().mono != ended",
			Args: []string{"-test.run=TestZombies", "-test.count=10"}, Shows: `undead .* found itself valid after another had got the lock`,
		},
		{
			Name: "tokens are used again", File: "lock/redisstore/lua/tokens.lua",
			From: "new = math.max(tonumber(last) + 1, us)", To: "new = tonumber(last)",
			Args: []string{"-test.run=TestZombies"}, Shows: `undead .* a stale write was accepted`,
		},
		{
			Name: "Close leaves the locks", File: "lock/client.go",
			From: "errRelease := releaseAll(ctx, c.store, append(held, orphans...))",
			To:   "errRelease := releaseAll(ctx, c.store, orphans)\n\t_ = held",
			Args: []string{"-test.run=TestTerminated"}, Shows: `locks are left`,
		},
	}, *mutantFlag, report)
}
