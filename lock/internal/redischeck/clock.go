// The clock and the round trips in a Check.

package redischeck

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

const (
	roundTrips = 10 // are measured before the other requests, and as many after them

	// Round trips are reported above these parts of the TTL. A renewal needs an answer within
	// a third of it.
	medianPart, worstPart = 30, 10

	maxClockOffset = time.Second // that is not reported
)

// clockSample is one reading of the server's clock.
type clockSample struct {
	sent, received time.Time // on the local clocks
	server         time.Time
}

// readClock reads the server's clock some times. The first reading may have to make a
// connection, so it is not kept.
func (c *serverCheck) readClock(ctx context.Context) error {
	for i := range 1 + roundTrips {
		command := redisconn.NewCommand("time")
		sent := time.Now()
		if err := c.do(ctx, command); err != nil {
			return err
		}
		server, ok := parseTime(command.Reply)
		if !ok {
			return nil // tryRights reports a missing right
		}
		if i > 0 {
			c.sample = append(c.sample, clockSample{sent, time.Now(), server})
		}
	}
	return nil
}

// parseTime parses the reply of TIME.
func parseTime(reply any) (time.Time, bool) {
	items, ok := reply.([]any)
	if !ok || len(items) != 2 {
		return time.Time{}, false
	}
	seconds, okSeconds := items[0].(string)
	micros, okMicros := items[1].(string)
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, errMicros := strconv.ParseInt(micros, 10, 64)
	if !okSeconds || !okMicros || err != nil || errMicros != nil {
		return time.Time{}, false
	}
	return time.Unix(s, us*1000), true
}

// judgeClock adds findings about the clock and the round trips.
func (c *serverCheck) judgeClock() {
	if len(c.sample) == 0 {
		c.add(NotKnown, "clock-offset", "TIME is refused")
		c.add(NotKnown, "round-trip", "TIME is refused")
		return
	}
	trips := make([]time.Duration, len(c.sample))
	best := 0 // the sample that shows the offset best
	for i, s := range c.sample {
		trips[i] = s.received.Sub(s.sent)
		if trips[i] < trips[best] {
			best = i
		}
	}
	middle := c.sample[best].sent.Add(trips[best] / 2) // the offset is right to half of the round trip
	c.facts.ClockOffset = c.sample[best].server.Sub(middle)
	slices.Sort(trips)
	median, worst := trips[len(trips)/2], trips[len(trips)-1]
	c.facts.RoundTrip, c.facts.WorstRoundTrip = max(median, 1), max(worst, 1) // 0 means not known

	if over := c.facts.ClockOffset.Abs() - trips[0]; over > maxClockOffset {
		c.add(Warning, "clock-offset", fmt.Sprintf("the server's clock is %v from that of this host", basic.Round(c.facts.ClockOffset)))
	}
	seen := fmt.Sprintf("median %v, worst %v of %d, TTL %v", basic.Round(median), basic.Round(worst), len(trips), c.TTL)
	switch {
	case median > c.TTL/3:
		c.add(Unsafe, "round-trip", seen)
	case median > c.TTL/medianPart, worst > c.TTL/worstPart:
		c.add(Warning, "round-trip", seen)
	}
}
