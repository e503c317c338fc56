// The functions of package seam, for tests.

package natsstore

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
)

// The tests set what programs cannot; see package seam.
func init() {
	seam.Of = func(store any) seam.Inside {
		s := store.(*Store)
		return seam.Inside{
			Poll: &s.poll, Bound: &s.bound, JetStream: &s.js, Conn: s.js.Conn(),
			SetClock: func(d time.Duration) { s.clock.set(time.Now(), d) },
		}
	}
	seam.Check = func(c jetstream.StreamConfig) error {
		o, err := (*Options)(nil).withDefaults()
		if err != nil {
			return err
		}
		return check(c, o)
	}
}
