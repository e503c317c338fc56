package quorumstore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// unexplaining is a store that does not tell why a lease is lost.
type unexplaining struct{ driver.Store }

// Renew implements renewal.Renewer.
func (s unexplaining) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	err := s.Store.Renew(ctx, batch, out)
	for i := range out {
		if out[i].IsLost() {
			out[i] = renewal.Lost
		}
	}
	return err
}

// The reason of most members is that of the quorum.
func TestQuorumExplainsALossAsMostMembersDo(t *testing.T) {
	const missing, taken, dead, held = "missing", "taken", "dead", "held"
	for _, c := range []struct {
		members []string
		out     renewal.Outcome
	}{
		{[]string{missing, missing, held}, renewal.LostMissing},
		{[]string{taken, taken, dead}, renewal.LostTaken},
		{[]string{taken, missing, held}, renewal.LostMissing},
		{[]string{taken, taken, missing, held, held}, renewal.LostTaken},
		{[]string{taken, missing, missing, dead, held}, renewal.LostMissing},
		{[]string{missing, held, held}, renewal.Renewed},
		{[]string{missing, dead, held}, renewal.Unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			all, q := newServers(t, len(c.members))
			l := acquire(t, q, "k", "a")
			for i, state := range c.members {
				switch state {
				case missing:
					all[i].mem.Delete("k")
				case taken:
					all[i].mem.Delete("k")
					acquire(t, all[i].mem, "k", "b")
				case dead:
					all[i].losesRequests(down)
				}
			}
			out := make([]renewal.Outcome, 1)
			_ = q.Renew(t.Context(), []driver.Lease{l}, out) // an error says that the outcome is unknown
			assert.Equal(t, c.out, out[0], c.members)
		})
	}
}

// Members that do not explain do not count, and the client of a quorum has the cause.
func TestTheCauseOfALossOnAQuorum(t *testing.T) {
	for want, members := range map[renewal.Cause]func(s *server) driver.Store{
		renewal.CauseKeyMissing: func(s *server) driver.Store { return s },
		renewal.CauseUnknown:    func(s *server) driver.Store { return unexplaining{s} },
	} {
		synctest.Test(t, func(t *testing.T) {
			all := servers{newServer(), newServer(), newServer()}
			var stores []driver.Store
			for _, s := range all {
				stores = append(stores, members(s))
			}
			q, err := quorumstore.New(stores...)
			require.NoError(t, err)
			client, err := lock.New(q, &lock.Options{Terms: lock.Terms{TTL: ttl}})
			require.NoError(t, err)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			all.delete("k")
			<-held.Done()
			var lost *renewal.LostError
			require.ErrorAs(t, held.Err(), &lost)
			assert.Equal(t, want, lost.Cause())
			require.NoError(t, client.Close(t.Context()))
		})
	}
}
