package real

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match, in any tier")

// TestMutants checks that twenty runs find each mistake.
func TestMutants(t *testing.T) {
	mutants := []mutant.Tested{
		{
			Name: "tokens are reused", File: "lock/redisstore/lua/tokens.lua",
			From: "token = math.max(tonumber(last) + 1, micros)", To: "token = tonumber(last)",
		},
		{
			Name: "a renewal does not move the expiry", File: "lock/redisstore/lua/renew.lua",
			From: "not (gt and call('PEXPIRE', key, ttl, 'GT') == 1)", To: "not true",
		},
		{
			Name: "a release does not check the owner", File: "lock/redisstore/lua/release_fast.lua",
			From: " and string.match(value, '^(.*) %d+$') == ARGV[1]", To: "",
		},
		{
			Name: "a deadline is later than the expiry of the lease", File: "renewal/timing.go",
			From: "return ttl - ttl/driftDivisor - p.margin(ttl)", To: "return ttl + ttl/2",
		},
		{
			Name: "the deadline counts from the answer of a renewal", File: "renewal/worker.go",
			From: "e.applyOutcome(outcome, err, b.sent, b.validities[i], now)", To: "e.applyOutcome(outcome, err, now, b.validities[i], now)",
		},
	}
	for i := range mutants {
		mutants[i].Args = []string{"-test.run=^TestRuns$/^durable$", "-runs=20", "-rounds=1"}
		mutants[i].Shows = `no order of the operations is valid|is valid again`
	}
	mutants = append(mutants,
		mutant.Tested{
			Name: "a loss that a node reports after ASKING is final", File: "lock/internal/rediskit/renew.go",
			From: "case gone && it.asking:", To: "case gone && it.asking && it.hops > 200:",
			Args: []string{"-test.run=^TestLocksWhileASlotMovesTwice$"}, Shows: `L0: a slot was moved on and back`,
		},
		mutant.Tested{
			Name: "a lease with several keys is not renewed while its slot moves", File: "lock/internal/rediskit/router.go",
			From: "first.Step == 0 && c.next(first):", To: "first.Step == 0 && first.hops > 200 && c.next(first):",
			Args: []string{"-test.run=^TestLocksWhileASlotMoves$"}, Shows: `L0: a slot does not finish its move`,
		},
		mutant.Tested{
			Name: "every call for a moving slot is sent every 20 ms", File: "lock/internal/redisconn/cluster.go",
			From: "wait = min(2*wait, maxPause)", To: "wait = minPause",
			Args: []string{"-test.run=^TestMovingSlotsAreNotFlooded$"}, Shows: `R3: requests a second`,
		},
	)
	mutant.InTests(t, mutants, *mutantFlag, report)
}
