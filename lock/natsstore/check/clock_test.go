package check

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// A store that has a wrong idea of the server's clock does not shorten a lease.
func TestAWrongClockDoesNotShortenALease(t *testing.T) {
	at := testnats.Start(t)
	js := testnats.Connect(t, at)
	for name, message := range map[string]func(s *natsstore.Store, l driver.Lease) error{
		"SetMetadata": func(s *natsstore.Store, l driver.Lease) error { return s.SetMetadata(t.Context(), l, "new") },
		"SetMetadata without a state": func(s *natsstore.Store, l driver.Lease) error {
			l.State = nil
			return s.SetMetadata(t.Context(), l, "new")
		},
		"Acquire again": func(s *natsstore.Store, l driver.Lease) error {
			l.TTL = time.Second
			_, err := s.Acquire(t.Context(), l.Request)
			return err
		},
		"Renew without a state": func(s *natsstore.Store, l driver.Lease) error {
			l.State, l.TTL = nil, time.Second
			return s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, at).(*natsstore.Store)
			l, err := s.Acquire(t.Context(), driver.Request{Key: name, Owner: "client:1", TTL: time.Hour})
			require.NoError(t, err)
			seam.Of(s).SetClock(3 * time.Hour)
			require.NoError(t, message(s, l))
			of, err := js.Stream(t.Context(), stream)
			require.NoError(t, err)
			last, err := of.GetLastMsgForSubject(t.Context(), subject(name))
			require.NoError(t, err)
			assert.Greater(t, last.Sequence, l.Token, "a new message")
			ttl, err := time.ParseDuration(last.Header.Get(jetstream.MsgTTLHeader))
			require.NoError(t, err)
			assert.Greater(t, ttl, 50*time.Minute)
		})
	}
}
