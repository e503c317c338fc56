// The result of a run, and the check of it.

package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// summary describes the results of the run. It must be called before the locks are released.
func (d *demo) summary() string {
	var b strings.Builder
	stats := d.client.Stats().Renewal
	fmt.Fprintf(&b, "\nheld %s of %s leases to the end", count(stats.Held), count(d.leases))
	if stats.Lost() > 0 {
		fmt.Fprintf(&b, "\n%s holders were notified of a loss", count(int(stats.Lost())))
		for _, part := range []struct {
			n      uint64
			reason renewal.Reason
		}{{stats.NotOwned, renewal.ReasonNotOwned}, {stats.Failed, renewal.ReasonFailed}, {stats.Expired, renewal.ReasonExpired}} {
			if part.n > 0 {
				fmt.Fprintf(&b, "\n  %s: %v", count(int(part.n)), part.reason)
			}
		}
	}
	fmt.Fprintf(&b, "\n%s renewals in %s batches of %.0f leases\nsent late by %v (median), %v (99th percentile)",
		count(int(stats.Renewed)), count(int(stats.Batches)), float64(stats.Renewed+stats.Unknown)/float64(max(stats.Batches, 1)),
		round(stats.Late.Quantile(0.5)), round(stats.Late.Quantile(0.99)))
	return b.String()
}

// check returns an error if the wrong leases were lost, or if a holder was notified too late or
// with the wrong reason.
func (d *demo) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	addError := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	var lost, kept, late, wrong int
	var last time.Duration // from the end of a pause to the last notice of a loss
	least := d.ttl
	for _, h := range d.held {
		if h == nil {
			continue
		}
		loss, wasNotified := d.losses[h.Key()]
		switch should := d.shouldBeLost(h.Key()); {
		case wasNotified && !should:
			lost++
		case !wasNotified && should:
			kept++
		case wasNotified && d.fault == "steal":
			if loss.reason != renewal.ReasonNotOwned {
				wrong++
			}
		case wasNotified && d.fault == "pause": // no holder can be notified during the pause
			last = max(last, loss.at.Sub(d.paused.resumed))
		case wasNotified:
			left := d.store.heldUntil(h.Key()).Sub(loss.at)
			least = min(least, left)
			if left <= 0 {
				late++
			}
		}
	}
	addError(lost, "leases were lost without a fault")
	addError(kept, "holders were not notified of their loss")
	addError(late, "holders were notified after the store could grant the key again")
	addError(wrong, "holders got the wrong reason")
	addError(d.paused.valid, "leases counted as valid after the pause")
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch d.fault {
	case "steal":
		d.screen.line("exactly the %d holders of deleted keys were notified, with the right reason", len(d.stolen))
	case "hang":
		d.screen.line("every holder was notified, at least %v before its key could be granted again", least.Round(time.Millisecond))
	case "pause":
		d.screen.line("right after the pause no lease was Valid, and all holders were notified within %v", last.Round(time.Millisecond))
	default:
		d.screen.line("no lease was lost")
	}
	return nil
}

func (d *demo) shouldBeLost(key string) bool {
	return d.fault == "hang" || d.fault == "pause" || d.stolen[key]
}
