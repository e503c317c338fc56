package shared

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

const steps = 400 // of a walk

// TestClientsRelyOnlyOnHeldLeases runs random walks.
func TestClientsRelyOnlyOnHeldLeases(t *testing.T) {
	walks, limit := 3000, time.Minute
	if simreport.IsLong() {
		walks, limit = math.MaxInt, 5*time.Minute
	}
	var all stats
	end := time.Now().Add(limit)
	n := 0
	for ; n < walks && time.Now().Before(end); n++ {
		w := newSimulation(uint64(n), none) //nolint:gosec // it is not negative
		if err := w.walk(steps); err != nil {
			w = newSimulation(uint64(n), none) //nolint:gosec // it is not negative
			w.tracing = true
			_ = w.walk(steps)
			require.Fail(t, err.Error(), "walk %d\n%s", n, strings.Join(w.trace, "\n"))
		}
		all.add(w.stats)
	}
	report.Add("%d walks: %+v", n, all)
}

func (s *stats) add(o stats) {
	s.steps += o.steps
	s.granted += o.granted
	s.signalled += o.signalled
	s.stale += o.stale
	s.late += o.late
	s.renewed += o.renewed
	s.lost += o.lost
	s.refused += o.refused
	s.served += o.served
}

// TestClientMutationsAreFound breaks one rule of the clients at a time.
func TestClientMutationsAreFound(t *testing.T) {
	const most = 20_000
	for b := none + 1; b < numClientMutations; b++ {
		n := 0
		for ; n < most; n++ {
			if newSimulation(uint64(n), b).walk(steps) != nil { //nolint:gosec // it is not negative
				break
			}
		}
		t.Log(b, n)
		require.Less(t, n, most, "client mutation %d", b)
	}
	report.Add("all %d client mutations found", numClientMutations-1)
}
