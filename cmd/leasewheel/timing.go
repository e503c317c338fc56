// The margin of a lease that leaves the command its grace.

package main

import (
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The lease of a command is laid out as follows, from the sending of the last confirmed renewal:
//
//	0        period      2 periods      deadline                     end of the lease
//	|--------|-----------|-- ... -------|-- grace --|-- reserve --|--drift--|
//	         renewal     second try     notice,     KILL          others may get the lock
//	                                    TERM
//
// So the notice of a loss comes early enough that the command has its grace, and is killed
// before the lease can be another's.

const (
	minReserve     = 200 * time.Millisecond
	maxReserve     = time.Second
	reserveDivisor = 20
	minFraction    = 0.1 // of the TTL, for one period
	maxFraction    = 1.0 / 3
	driftPart      = 0.01 // of the TTL, for the drift of clocks; see docs/SAFETY.md
	roundingPart   = 0.001
)

// reserveFor returns the time between the KILL and the end of the lease, less the drift of
// clocks. The kernel and the scheduler need it to end the processes.
func reserveFor(ttl time.Duration) time.Duration {
	return min(max(ttl/reserveDivisor, minReserve), maxReserve)
}

// marginFor returns the margin of a lease whose holder needs the grace to stop.
func marginFor(ttl, grace time.Duration) time.Duration {
	return max(grace+reserveFor(ttl), time.Duration(driftPart*float64(ttl)))
}

// renewalFor returns the policy with which a notice comes early enough for the
// grace and a second renewal is still in time. The error has the figures if the TTL is too short
// for that. A lease ends at its deadline only, however many renewals fail before.
func renewalFor(ttl, grace time.Duration) (renewal.Policy, error) {
	margin := marginFor(ttl, grace)
	switch {
	case !fits(ttl, 0):
		return renewal.Policy{}, usageError{fmt.Sprintf("-ttl %v is too short for a command, which must be stopped %v before the lease ends; "+
			"the shortest TTL is %v", ttl, marginFor(ttl, 0), shortestTTL(0))}
	case !fits(ttl, grace):
		return renewal.Policy{}, usageError{fmt.Sprintf("-grace %v is too long for -ttl %v: the command must be stopped %v before the lease ends, "+
			"and two renewals must fit in before that; the longest grace for this TTL is %v, and the shortest TTL for this grace %v",
			grace, ttl, margin.Round(time.Millisecond), longestGrace(ttl), shortestTTL(grace))}
	}
	fraction := (1 - driftPart - roundingPart - 2*float64(margin)/float64(ttl)) / 2
	return renewal.Policy{Margin: margin, Fraction: min(fraction, maxFraction), Failures: -1}, nil
}

// marginPart is the largest margin as a part of the TTL.
const marginPart = (1 - driftPart - roundingPart - 2*minFraction) / 2

// fits reports whether a lease leaves the grace and two renewals.
func fits(ttl, grace time.Duration) bool {
	return float64(marginFor(ttl, grace)) <= marginPart*float64(ttl)
}

// checkTTL returns the error of a TTL that no lease can have. In lock.Options, 0 is the default.
func checkTTL(ttl time.Duration) error {
	if ttl < lock.MinTTL || ttl > lock.MaxTTL {
		return usageError{fmt.Sprintf("-ttl must be %v to %v, got %v", lock.MinTTL, lock.MaxTTL, ttl)}
	}
	return nil
}

// longestGrace returns the longest grace for a TTL, rounded down.
func longestGrace(ttl time.Duration) time.Duration {
	most := time.Duration(marginPart*float64(ttl)) - reserveFor(ttl)
	return max(most.Truncate(10*time.Millisecond), 0)
}

// shortestTTL returns a TTL that is long enough for the grace, rounded up.
func shortestTTL(grace time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	ttl := time.Duration(float64(grace) / marginPart).Truncate(step)
	for !fits(ttl, grace) || longestGrace(ttl) < grace {
		ttl += step
	}
	return ttl
}
