package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// summary tells in words what became of the leases. It is taken before the locks
// are released.
func (d *demo) summary(err error) string {
	var b strings.Builder
	stats := d.client.Stats().Renewal
	fmt.Fprintf(&b, "\nheld %d of %d leases to the end, %d holders were told of a loss", stats.Held, d.leases, stats.Lost())
	if stats.Lost() > 0 {
		fmt.Fprintf(&b, ": %d because %v, %d because %v, %d because %v", stats.NotOwned, renewal.NotOwned, stats.Failed, renewal.Failed, stats.Expired, renewal.Expired)
	}
	fmt.Fprintf(&b, "\n%d renewals in %d batches, %.0f leases each; sent late by %v (median), %v (99th percentile)",
		stats.Renewed, stats.Batches, float64(stats.Renewed+stats.Unknown)/float64(max(stats.Batches, 1)),
		stats.Late.Quantile(0.5).Round(time.Microsecond), stats.Late.Quantile(0.99).Round(time.Microsecond))
	if n := d.store.injected(); n > 0 {
		fmt.Fprintf(&b, "\n%d calls failed by injection, %d renewals without an answer", n, stats.Unknown)
	}
	if err == nil {
		d.screen.usage(&b)
	}
	return b.String()
}

// verdict returns an error if a lease was lost that should have lived, or lived
// that should have been lost, or if a holder was told too late.
func (d *demo) verdict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	say := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	var lost, kept, late, wrong int
	least := d.ttl
	for _, h := range d.held {
		if h == nil {
			continue
		}
		told, wasTold := d.told[h.Key()]
		switch should := d.shouldBeLost(h.Key()); {
		case wasTold && !should:
			lost++
		case !wasTold && should:
			kept++
		case wasTold && d.fault == "steal":
			if told.reason != renewal.NotOwned {
				wrong++
			}
		case wasTold:
			left := d.store.keptUntil(h.Key()).Sub(told.at)
			least = min(least, left)
			if left <= 0 {
				late++
			}
		}
	}
	say(lost, "leases were lost that should have lived")
	say(kept, "holders were not told of a loss")
	say(late, "holders were told after the store could have given the key away")
	say(wrong, "holders were told a wrong reason")
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch d.fault {
	case "steal":
		d.screen.line("exactly the %d holders whose keys were deleted were told, with the reason", len(d.stolen))
	case "hang":
		d.screen.line("every holder was told, at the latest %v before the store could give its key away", least.Round(time.Millisecond))
	case "errors":
		d.screen.line("no lease was lost to a single error")
	default:
		d.screen.line("no lease was lost")
	}
	return nil
}

func (d *demo) shouldBeLost(key string) bool {
	return d.fault == "hang" || d.stolen[key]
}
