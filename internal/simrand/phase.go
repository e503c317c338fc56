// The phase of renewals, which a seed decides.

package simrand

import (
	"sync"

	"github.com/leasewheel/leasewheel/internal/seam"
)

var phaseMu sync.Mutex // held while seam.RenewalPhase is set, because schedules run in parallel

// WithPhase calls f. Every watchdog that f creates gets the given phase, a number from 0 to
// below 1, instead of a random one, so that a seed decides when first renewals are sent.
func WithPhase(phase float64, f func()) {
	phaseMu.Lock()
	defer phaseMu.Unlock()
	seam.RenewalPhase.Store(&phase)
	defer seam.RenewalPhase.Store(nil)
	f()
}
