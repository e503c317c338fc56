// Renew and ReleaseAll.

package redlock

import (
	"context"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// item is a lease on its way to a node.
type item = rediskit.Item[keys]

// Lane implements [driver.Store]. On a cluster each master is a lane of its own.
func (s *Store) Lane(l driver.Lease) int {
	return rediskit.Lane(s.redis, redisconn.SlotOf(s.prefix+l.Key))
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each master.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	p := &rediskit.Plan[keys]{Store: "redlock", Redis: s.redis, Load: s.loadRenewal, Add: s.addRenewal}
	return rediskit.Renew(ctx, p, batch, out)
}

func (s *Store) loadRenewal(l *driver.Lease, it *item) error {
	if err := s.load(l, it); err != nil {
		return err
	}
	it.TTL = l.TTL.Milliseconds()
	if l.Token != 0 {
		return rediskit.ErrOtherStore
	}
	return nil
}

func (s *Store) load(l *driver.Lease, it *item) error {
	k, err := s.keys(&l.Request)
	it.State, it.Secret, it.Slot = &k, l.Owner, redisconn.SlotOf(k.lock)
	return err
}

// addRenewal adds the script that renews items.
func (s *Store) addRenewal(b *redisconn.Batch, items []item) {
	n := len(items)
	args := b.Add(s.redis.Accepted(renewScript, n), 4+2*n)
	args[2], args[3+n] = n, items[0].TTL
	for k := range items {
		args[3+k], args[4+n+k] = &items[k].State.lock, &items[k].Lease.Owner
	}
}

// ReleaseAll implements [driver.Store]. It sends the script of Release for each lease. Many
// scripts share a round trip. Options.Timeout bounds each 1,000 leases.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	load := func(l *driver.Lease, it *item) error {
		it.Alone = true
		return s.load(l, it)
	}
	parse := func(_ []item, reply any) (left []any, err error) { return nil, rediskit.ParseDone(reply) }
	p := &rediskit.Plan[keys]{Store: "redlock", Redis: s.redis, Load: load, Add: addRelease, Parse: parse, Release: s.Release}
	rediskit.ReleaseAll(ctx, p, batch, out)
	return nil
}

func addRelease(b *redisconn.Batch, items []item) {
	args := releaseArgs(items[0].Lease, *items[0].State)
	copy(b.Add(releaseScript, len(args)), args)
}
