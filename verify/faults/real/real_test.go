package real

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// totals sums up the results of runs. It is safe for concurrent use.
type totals struct {
	mu   sync.Mutex // guards the fields below
	runs int
	sum  result
}

func (s *totals) add(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == 0 {
		s.sum.counts, s.sum.faults = map[string]int{}, map[string]int{}
	}
	s.runs++
	for to, from := range map[*map[string]int]map[string]int{&s.sum.counts: r.counts, &s.sum.faults: r.faults} {
		for name, n := range from {
			(*to)[name] += n
		}
	}
	s.sum.stale += r.stale
	s.sum.took += r.took
	s.sum.wrong = append(s.sum.wrong, r.wrong...)
}

var runsOf = map[string]int{simreport.Quick: 1, simreport.Long: 10, simreport.Nightly: 100, simreport.Release: 400}

// TestRuns runs on a durable server and on one that loses all data when it is killed.
func TestRuns(t *testing.T) {
	runs, p := runsOf[simreport.Tier()], plan{ttl: 500 * time.Millisecond, calm: time.Second, rounds: 1}
	if simreport.IsLong() {
		p = plan{ttl: time.Second, calm: 5 * time.Second, rounds: 4}
	}
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	if *roundsFlag > 0 {
		p.rounds = *roundsFlag
	}
	for _, durable := range []bool{true, false} {
		p := p
		p.durable = durable
		t.Run(p.kind(), func(t *testing.T) {
			t.Parallel()
			var all totals
			for i := range uint64(runs) {
				p.seed = *seedFlag + i
				if !p.test(t, &all) {
					break
				}
			}
			report.Add("%-10s  %d runs, seeds from %d, %.0f s", p.kind(), all.runs, *seedFlag, all.sum.took.Seconds())
			report.Add("  operations  %s, stale requests refused %d", simreport.Counts(all.sum.counts), all.sum.stale)
			report.Add("  faults      %s", simreport.Counts(all.sum.faults))
			report.Add("  violations  %d", len(all.sum.wrong))
		})
	}
}

// test performs the run and returns whether it passed.
func (p plan) test(t *testing.T, all *totals) bool {
	r, err := p.run(t.Context(), testredis.Start(t, p.args()...))
	if !assert.NoError(t, err, "%v", p) {
		return false
	}
	all.add(r)
	for _, wrong := range r.wrong {
		t.Errorf("%v: %s", p, wrong)
	}
	return assert.Empty(t, r.wrong) && assert.Empty(t, p.missing(r), "%v: the run did less than its floor", p)
}
