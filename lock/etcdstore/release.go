// Release and tombstones.

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
	return s.call(ctx, "release", func(ctx context.Context) (err error) {
		k := leaseKey{l.Key, l.Owner}
		var answers []*etcdserverpb.ResponseOp
		if l.Unanswered || s.mayGet(k) {
			answers, err = s.giveUp(ctx, []leaseKey{k})
		} else {
			answers, err = s.each(ctx, s.releaseOps([]leaseKey{k}, clientv3.NoLease))
		}
		if err != nil {
			return err
		}
		s.released(k)
		if !answers[0].GetResponseTxn().Succeeded {
			return driver.ErrNotHeld
		}
		return nil
	})
}
