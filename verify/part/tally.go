package part

import (
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Tally is what a store saw of a watchdog, and its hooks told. The zero Tally is of
// nothing. It is for one goroutine at a time.
type Tally struct {
	Calls, Answered, Leases int // of Renew

	done, size, renewed int // by BatchDone
	lost                [renewal.Expired + 1]int
}

// Lost takes down a loss.
func (t *Tally) Lost(info renewal.LostInfo) { t.lost[info.Err.Reason]++ }

// BatchDone takes down a batch, and returns what is wrong with it.
func (t *Tally) BatchDone(info renewal.BatchInfo) (wrong string) {
	t.done++
	t.size += info.Size
	t.renewed += info.Renewed
	if info.Size != info.Renewed+info.Lost+info.Unknown+info.Ended {
		return fmt.Sprintf("a batch of %d: %+v", info.Size, info)
	}
	return ""
}

// Check adds up the statistics of a client that has been closed, and returns what is
// wrong with them.
func (t *Tally) Check(all lock.Stats) (wrong string) {
	s := all.Renewal
	switch {
	case all.Waiting != 0 || all.Cleaning != 0 || s.Held != 0 || s.Due != 0 || s.InFlight != 0 || s.Oldest != 0:
		return fmt.Sprintf("R2: it is closed and has %+v", all)
	case int(s.Batches) != t.done || t.done != t.Calls || t.Calls != t.Answered:
		return fmt.Sprintf("it made %d renewals, %d returned, BatchDone told of %d, Stats of %d", t.Calls, t.Answered, t.done, s.Batches)
	case t.size != t.Leases || int(s.Late.Count()) != t.Leases || int(s.Renewed) != t.renewed:
		return fmt.Sprintf("it sent %d leases, BatchDone told of %d, Late counts %d; renewed %d and %d",
			t.Leases, t.size, s.Late.Count(), s.Renewed, t.renewed)
	case int(s.NotOwned) != t.lost[renewal.NotOwned] || int(s.Failed) != t.lost[renewal.Failed] || int(s.Expired) != t.lost[renewal.Expired]:
		return fmt.Sprintf("it was told of the losses %v, Stats of %d, %d, %d", t.lost[renewal.NotOwned:], s.NotOwned, s.Failed, s.Expired)
	}
	return ""
}
