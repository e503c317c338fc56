// ReleaseAll, and the arguments of a release.

package redisstore

import (
	"context"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// ReleaseAll implements [driver.Store]. One script deletes up to 25 locks without
// waiters, or one lock on a cluster. The other locks are released with the script of Release.
// Many scripts share a round trip. Options.Timeout bounds each 1,000 leases.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	parse := func(items []item, reply any) (left []any, err error) {
		if reply = s.result(ctx, items[0].State.key, reply); items[0].Alone {
			return nil, parseReleased(reply)
		}
		return parseLost(reply, len(items))
	}
	p := &rediskit.Plan[leaseState]{Store: "redisstore", Redis: s.redis, Load: s.loadRelease, Add: s.addRelease, Parse: parse, Release: s.Release}
	rediskit.ReleaseAll(ctx, p, batch, out)
	return nil
}

func (s *Store) loadRelease(l *driver.Lease, it *item) error {
	st, err := s.stateOf(l)
	if err != nil {
		return err
	}
	it.State, it.Secret, it.Slot = st, st.holder(), st.slot
	if st.shared || l.Unanswered || l.Token == 0 || l.Keep() > 0 || s.redis.OneByOne() {
		it.Alone, it.Kind = true, 1
	}
	return nil
}

// addRelease adds the script for items.
func (s *Store) addRelease(b *redisconn.Batch, items []item) {
	if items[0].Alone {
		sc, args, _ := s.releaseArgs(items[0].Lease)
		copy(b.Add(s.redis.Accepted(sc, 1), len(args)), args)
		return
	}
	n, keys := len(items), 2*len(items)
	for i := range items {
		if items[i].State.hasMark() {
			keys++
		}
	}
	args := b.Add(releaseAllScript, 3+keys+n)
	args[2] = keys
	metadata := 3 + 2*n
	for i := range items {
		st := items[i].State
		args[3+i], args[3+n+i], args[3+keys+i] = &st.key, st.key+queueEnd, &st.value
		if st.hasMark() {
			args[metadata] = st.key + metadataEnd
			metadata++
		}
	}
}
