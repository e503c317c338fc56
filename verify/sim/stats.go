// The counts of a client's renewals, and their comparison with its Stats.

package sim

import (
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Stats counts the renewals of a client as its store and its hooks see them. It is not safe for
// concurrent use.
type Stats struct {
	Calls, Answered, Leases int // of Renew
	Early                   int // of Leases, those of early renewals

	done, size, renewed int // by BatchDone
	earlyCalls          int // early ones that are running
	lost                [renewal.ReasonLimitReached + 1]int
}

// BatchDone records a batch, and returns a description of what is wrong with it.
func (s *Stats) BatchDone(info renewal.BatchInfo) (wrong string) {
	s.done++
	s.size += info.Size
	s.renewed += info.Renewed
	if info.Size != info.Renewed+info.Lost+info.Unknown+info.Ended {
		return fmt.Sprintf("a batch of %d: %+v", info.Size, info)
	}
	return ""
}

// Check compares the counts with the statistics of a closed client. It returns a description of
// what is wrong with those.
func (s *Stats) Check(all lock.Stats) (wrong string) {
	r := all.Renewal
	switch {
	case all.Waiting != 0 || all.Releasing != 0 || r.Held != 0 || r.Due != 0 || r.InFlight != 0 || r.Oldest != 0:
		return fmt.Sprintf("R2: it is closed and has %+v", all)
	case int(r.Batches) != s.done || s.done != s.Calls || s.Calls != s.Answered:
		return fmt.Sprintf("it made %d renewals, %d returned, BatchDone told of %d, Stats of %d", s.Calls, s.Answered, s.done, r.Batches)
	case s.size != s.Leases || int(r.Late.Count()) != s.Leases-s.Early || int(r.Renewed) != s.renewed:
		return fmt.Sprintf("it sent %d leases, BatchDone told of %d, Late counts %d; renewed %d and %d",
			s.Leases, s.size, r.Late.Count(), r.Renewed, s.renewed)
	case s.lost != [...]int{0, int(r.NotOwned), int(r.Failed), int(r.Expired), int(r.LimitReached)}:
		return fmt.Sprintf("it was told of the losses %v, Stats of %d, %d, %d, %d", s.lost[renewal.ReasonNotOwned:], r.NotOwned, r.Failed, r.Expired, r.LimitReached)
	}
	return ""
}
