// Renew.

package redisstore

import (
	"context"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// item is a lease on its way to a node.
type item = rediskit.Item[leaseState]

// Lane implements [driver.Store]. On a cluster each master is a lane of its own. A lease
// changes its lane when its slot moves.
func (s *Store) Lane(l driver.Lease) int {
	if s.redis == nil || !s.redis.IsCluster() {
		return 0
	}
	st, err := s.stateOf(&l)
	if err != nil {
		return 0 // Renew returns the error
	}
	return rediskit.Lane(s.redis, st.slot)
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each
// master. Leases that have moved take more. Of shared locks it knows only that a lease is missing.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	p := s.renewals()
	if s.replicas.Renewals {
		p.Confirm = &confirmation{store: s, required: s.replicas.Require}
	}
	return rediskit.Renew(ctx, p, batch, out)
}

func (s *Store) renewals() *rediskit.Plan[leaseState] {
	return &rediskit.Plan[leaseState]{Store: "redisstore", Redis: s.redis, Load: s.loadRenewal, Add: addRenewal, Next: nextStep, Wanted: wanted}
}

func (s *Store) loadRenewal(l *driver.Lease, it *item) error {
	st, err := s.stateOf(l)
	if err != nil {
		return err
	}
	it.State, it.Secret, it.Slot, it.TTL = st, st.holder(), st.slot, l.TTL.Milliseconds()
	if st.shared {
		it.Kind = 1
	}
	if it.Yields = st.yields; it.Yields {
		it.Kind += 2
	}
	return nil
}

// addRenewal adds the script for items.
func addRenewal(b *redisconn.Batch, items []item) {
	n, ttl := len(items), items[0].TTL
	switch {
	case items[0].Step > 0 && items[0].State.shared:
		addStep(b, &items[0])
	case items[0].State.shared: // three keys each
		args := b.Add(items[0].State.store.redis.Accepted(sharedRenewScript, n), 3+3*n+1+n)
		args[2], args[3+3*n] = 3*n, ttl
		for k := range items {
			st := items[k].State
			third := recordsEnd // twice, because a server refuses a script that names a missing key while a slot moves
			switch {
			case st.members:
				third = membersEnd
			case st.yields:
				third = queueEnd
			}
			args[3+3*k], args[3+3*k+1], args[3+3*k+2] = &st.key, st.key+recordsEnd, st.key+third
			args[3+3*n+1+k] = &st.value
		}
	default:
		named := n // keys
		if items[0].Yields && items[0].Step == 0 {
			named = 2 * n
		}
		args := b.Add(items[0].State.store.redis.Accepted(renewScript, n), 3+named+1+n)
		args[2], args[3+named] = named, ttl
		for k := range items {
			st := items[k].State
			args[3+k], args[3+named+1+k] = &st.key, &st.value
			if named > n {
				args[3+n+k] = st.key + queueEnd
			}
		}
	}
}

// While a slot moves from one node to another, the keys of a shared lock may be on both.
// The nodes then answer TRYAGAIN to a script that names several of these keys, but they
// execute scripts with one key. Such a lease is therefore renewed key by key, each on
// the node that has the key. A lock that yields is renewed without its queue.
//
// This is as safe as one script. The records show that the owner holds its lease with this
// token. The owner can get another token only if its lease has expired and a late request of
// its own takes the lock again. Such a request names several keys, so it is refused while
// the slot moves. The holders come last, and show that the lease has not expired.

// The steps of such a renewal, each with one key.
const (
	stepRecords = 1 + iota
	stepMembers
	stepHolders
)

// nextStep sets the next step of an item.
func nextStep(it *item) bool {
	if it.Step == stepHolders {
		return false
	}
	if !it.State.shared {
		it.Step = stepHolders
		return it.State.yields
	}
	it.Step++
	if it.Step == stepMembers && !it.State.members {
		it.Step++
	}
	it.Minor = it.Step == stepMembers
	return true
}

// addStep adds the script for the current step of an item.
func addStep(b *redisconn.Batch, it *item) {
	key, which := it.State.key, "h"
	switch it.Step {
	case stepRecords:
		key, which = it.State.key+recordsEnd, "r"
	case stepMembers:
		key, which = it.State.key+membersEnd, "k"
	}
	args := b.Add(sharedKeyScript, 7)
	args[2], args[3], args[4], args[5], args[6] = 1, key, it.TTL, &it.State.value, which
}
