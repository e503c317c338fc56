// Release, ReleaseAll and tombstones.

package etcdstore

import (
	"context"
	"errors"
	"slices"
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
	k := leaseKey{l.Key, l.Owner}
	return s.release(ctx, []leaseKey{k}, l.Unanswered || s.mayGet(k))[0]
}

// ReleaseAll implements [driver.Store], with up to 64 leases in one transaction.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	var owners []leaseKey
	at := make(map[leaseKey]int)
	for i, l := range batch {
		k := leaseKey{l.Key, l.Owner}
		if _, again := at[k]; again || l.Unanswered || s.mayGet(k) {
			out[i] = s.Release(ctx, l)
			continue
		}
		at[k], owners = i, append(owners, k)
	}
	for some := range slices.Chunk(owners, maxReleases) {
		for i, err := range s.release(ctx, some, false) {
			out[at[some[i]]] = err
		}
	}
	return nil
}

// release releases different owners in one transaction, and returns the error of each.
func (s *Store) release(ctx context.Context, owners []leaseKey, tombs bool) []error {
	out := make([]error, len(owners))
	err := s.call(ctx, "release", func(ctx context.Context) (err error) {
		var answers []*etcdserverpb.ResponseOp
		if tombs {
			answers, err = s.giveUp(ctx, owners)
		} else {
			answers, err = s.each(ctx, s.releaseOps(owners, clientv3.NoLease))
		}
		for i, answer := range answers {
			if s.released(owners[i]); !answer.GetResponseTxn().Succeeded {
				out[i] = driver.ErrNotHeld
			}
		}
		return err
	})
	if err != nil {
		for i := range out {
			out[i] = err
		}
	}
	return out
}
