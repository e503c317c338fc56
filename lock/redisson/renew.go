// Renew.

package redisson

import (
	"context"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// item is a lease on its way to a node.
type item = rediskit.Item[leaseState]

// Lane implements [driver.Store]. On a cluster each master is a lane of its own.
func (s *Store) Lane(l driver.Lease) int {
	return rediskit.Lane(s.redis, redisconn.SlotOf(s.options.Prefix+l.Key))
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each master.
// Leases that have moved take more. The state of a lease whose slot is moving may be unknown until the
// next renewal.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	p := &rediskit.Plan[leaseState]{Store: "redisson", Redis: s.redis, Load: s.loadRenewal, Add: addRenewal, Unexplained: true}
	return rediskit.Renew(ctx, p, batch, out)
}

func (s *Store) loadRenewal(l *driver.Lease, it *item) error {
	st, err := s.stateOf(l)
	if err == nil {
		err = s.checkReader(&l.Request)
	}
	if err == nil && st.kind != renewFenced && l.Token != 0 {
		err = rediskit.ErrOtherStore // these kinds have no tokens
	}
	if err == nil {
		it.State, it.Secret, it.Slot, it.TTL, it.Kind = st, st.owner, st.slot, l.TTL.Milliseconds(), uint8(st.kind)
	}
	return err
}

// addRenewal adds the script for items.
func addRenewal(b *redisconn.Batch, items []item) {
	script, keys, values := renewScript, 1, 1 // of one lease
	kind := items[0].State.kind
	switch kind {
	case renewFenced:
		script, keys, values = fencedRenewScript, 2, 2
	case renewRW:
		script, keys = rwRenewScript, 2
	}
	n := len(items)
	args := b.Add(script, 3+n*keys+1+n*values)
	args[2] = n * keys
	args[3+n*keys] = items[0].TTL
	for i := range items {
		st, at, value := items[i].State, args[3+i*keys:], args[4+n*keys+i*values:]
		at[0], value[0] = st.name, st.owner
		switch kind {
		case renewFenced:
			at[1], value[1] = st.tokenKey, st.token
		case renewRW:
			at[1] = st.reader
		}
	}
}
