package real

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

// Each mutant must be caught within twenty runs.
func TestMutants(t *testing.T) {
	mutants := []mutant.Tested{
		{
			Name: "tokens are used again", File: "lock/redisstore/lua/tokens.lua",
			From: "new = math.max(tonumber(last) + 1, us)", To: "new = tonumber(last)",
		},
		{
			Name: "a renewal moves no end", File: "lock/redisstore/lua/renew.lua",
			From: "call('PEXPIRE', key, ttl) == 0", To: "call('EXISTS', key) == 0",
		},
		{
			Name: "a release does not look whose lock it is", File: "lock/redisstore/lua/release_free.lua",
			From: " and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' '\n  and string.find(value, '^%d+$', #ARGV[1] + 2)", To: "",
		},
		{
			Name: "holders believe in a lease for longer than it lasts", File: "renewal/options.go",
			From: "return ttl - ttl/driftPart - o.margin(ttl)", To: "return ttl + ttl/2",
		},
		{
			Name: "the deadline counts from the answer of a renewal", File: "renewal/dispatch.go",
			From: "e.settle(outcome, err, b.sent, now)", To: "e.settle(outcome, err, now, now)",
		},
	}
	for i := range mutants {
		mutants[i].Args = []string{"-test.run=^TestRuns$/^durable$", "-runs=20", "-rounds=1"}
		mutants[i].Shows = `durable, seed \d+: .*(no order|was refused while it was held|are lost).*`
	}
	mutant.InTests(t, mutants, *mutantFlag, report)
}
