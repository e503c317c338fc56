package scale

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match, in any tier")

// TestMutants checks that the tests find mistakes that earlier code had.
func TestMutants(t *testing.T) {
	scripts := []string{"-test.run=^TestScriptsAreBounded$"}
	mutant.InTests(t, []mutant.Tested{
		{
			Name: "a forced release takes a lock from all holders at once", File: "lock/redisstore/lua/shared_force.lua",
			From: "'COUNT', 400)", To: "'COUNT', 1000000)",
			Args: scripts, Shows: "release a semaphore by force",
		},
		{
			Name: "a sweep reads all records", File: "lock/redisstore/lua/shared_prelude.lua",
			From: "  if delete_if_unused() then\n    return\n  end\n  local cursor = redis.call('HGET', KEYS[5], '{sweep}') or '0'\n  local found = redis.call('HSCAN', KEYS[5], cursor, 'COUNT', count)",
			To:   "  local found = redis.call('HSCAN', KEYS[5], '0', 'COUNT', 1000000)",
			Args: scripts, Shows: "take a permit",
		},
		{
			Name: "Close of a watchdog ends all entries in one go", File: "renewal/close.go",
			From: "for range maxPerHold {\n\t\tb := cmp.Or(", To: "for range 1 << 30 {\n\t\tb := cmp.Or(",
			Args: []string{"-test.run=^TestCloseOfAWatchdogDelaysNoTimers$", "-long"}, Shows: "a timer during Close of a watchdog",
		},
		{
			Name: "Close of a watchdog ignores its context", File: "renewal/close.go",
			From: "case ctx.Err() != nil:\n\t\t\tw.stopRest()", To: "case ctx == nil:\n\t\t\tw.stopRest()",
			Args: []string{"-test.run=^TestCloseOfAClientEndsWithItsContext$"}, Shows: "Close of a client after its context",
		},
		{
			Name: "the holders of a key in memory are searched one by one", File: "lock/memstore/state.go",
			From: "return k, k.leases[l.Owner]", To: "for owner, h := range k.leases {\n\t\tif owner == l.Owner {\n\t\t\treturn k, h\n\t\t}\n\t}\n\treturn k, nil",
			Args: []string{"-test.run=^TestHoldersInMemory$"}, Shows: "1,000 operations next to",
		},
	}, *mutantFlag, report)
}
