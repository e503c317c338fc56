// Release, ReleaseAll and tombstones.

package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// maxReleases is the number of releases in one transaction.
const maxReleases = maxOps / 2

// releaseOps delete the locks and the places of owners. An operation succeeds if its owner had the
// lock. They leave tombstones in the etcd lease, unless that is NoLease.
func (s *Store) releaseOps(owners []leaseKey, tombs clientv3.LeaseID) []clientv3.Op {
	ops := make([]clientv3.Op, len(owners))
	for i, k := range owners {
		lock, always := s.lockKey(k.key), []clientv3.Op{clientv3.OpDelete(s.placeKey(k.key, k.owner))}
		if tombs != clientv3.NoLease {
			always = append(always, clientv3.OpPut(s.tombKey(k.owner), "", clientv3.WithLease(tombs)))
		}
		ops[i] = clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.Value(lock), "=", valueOf(k.owner))},
			append([]clientv3.Op{clientv3.OpDelete(lock), clientv3.OpDelete(s.metaKey(k.key))}, always...),
			always,
		)
	}
	return ops
}

// giveUp releases owners whose requests may be executed later, and leaves tombstones that refuse
// these. A server without space refuses tombstones, but no deletions: giveUp then deletes what the
// owners have, and returns ErrNoSpace.
func (s *Store) giveUp(ctx context.Context, owners []leaseKey) ([]*etcdserverpb.ResponseOp, error) {
	id, _, err := s.tombs.acquiredSince(ctx, time.Now().Add(-tombstoneTime))
	var answers []*etcdserverpb.ResponseOp
	if err == nil {
		answers, err = s.each(ctx, s.releaseOps(owners, id))
		s.ended(s.tombs, id, err)
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		if _, failed := s.each(ctx, s.releaseOps(owners, clientv3.NoLease)); failed != nil {
			err = failed
		}
	}
	return answers, err
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	ctx, end, err := s.begin(ctx, maxRequest)
	if err != nil {
		return err
	}
	defer end()
	batch, out := []driver.Lease{l}, make([]error, 1)
	s.releaseSome(ctx, batch, []int{0}, s.needsTomb(&l), out)
	return out[0]
}

func (s *Store) needsTomb(l *driver.Lease) bool {
	return l.Unanswered || s.mayGet(leaseKey{l.Key, l.Owner})
}

// ReleaseAll implements [driver.Store], with up to 64 leases in one transaction.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, end, err := s.begin(ctx, maxTurn)
	if err != nil {
		for i := range out {
			out[i] = err
		}
		return nil
	}
	defer end()
	var at []int
	tombs, seen := false, make(map[leaseKey]bool)
	flush := func() {
		s.releaseSome(ctx, batch, at, tombs, out)
		at = at[:0]
		clear(seen)
	}
	for i := range batch {
		l := &batch[i]
		k, needs := leaseKey{l.Key, l.Owner}, s.needsTomb(l)
		if len(at) == maxReleases || seen[k] || needs != tombs { // a transaction compares before it deletes
			flush()
		}
		at, tombs = append(at, i), needs
		seen[k] = true
	}
	flush()
	return nil
}

// releaseSome releases the leases at the given places of a batch in one transaction.
func (s *Store) releaseSome(ctx context.Context, batch []driver.Lease, at []int, tombs bool, out []error) {
	if len(at) == 0 {
		return
	}
	owners := make([]leaseKey, len(at))
	for n, i := range at {
		owners[n] = leaseKey{batch[i].Key, batch[i].Owner}
	}
	var answers []*etcdserverpb.ResponseOp
	var err error
	if tombs {
		answers, err = s.giveUp(ctx, owners)
	} else {
		answers, err = s.each(ctx, s.releaseOps(owners, clientv3.NoLease))
	}
	for n, i := range at {
		switch {
		case err != nil:
			out[i] = s.failed(ctx, "release", err)
			continue
		case !answers[n].GetResponseTxn().Succeeded:
			out[i] = driver.ErrNotHeld
		default:
			out[i] = nil
		}
		s.released(owners[n])
	}
}
