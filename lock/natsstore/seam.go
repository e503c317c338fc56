// The functions of package seam, for tests.

package natsstore

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
)

// The tests set what programs cannot; see package seam.
func init() {
	seam.SetPoll = func(s any, d time.Duration) { s.(*Store).poll = d }
	seam.SetClock = func(s any, d time.Duration) { s.(*Store).clock.set(time.Now(), d) }
	seam.SetBound = func(s any, d time.Duration) { s.(*Store).bound = d }
	seam.Wrap = func(s any, f func(jetstream.JetStream) jetstream.JetStream) { s.(*Store).js = f(s.(*Store).js) }
	seam.Conn = func(s any) *nats.Conn { return s.(*Store).js.Conn() }
	seam.Check = func(c jetstream.StreamConfig) error {
		o, err := (*Options)(nil).withDefaults()
		if err != nil {
			return err
		}
		return check(c, o)
	}
}
