package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// maxReleases is the number of releases in one transaction.
const maxReleases = maxOps / 2

// releaseOp deletes the lock and the place of an owner. It succeeds if the owner had the lock.
func (s *Store) releaseOp(k leaseKey, more ...clientv3.Op) clientv3.Op {
	lock, place := s.lockKey(k.key), clientv3.OpDelete(s.placeKey(k.key, k.owner))
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.Value(lock), "=", valueOf(k.owner))},
		append([]clientv3.Op{clientv3.OpDelete(lock), clientv3.OpDelete(s.metaKey(k.key)), place}, more...),
		append([]clientv3.Op{place}, more...),
	)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	var tomb []clientv3.Op
	if l.Unanswered {
		id, _, err := s.tombs.acquiredSince(ctx, time.Now().Add(-tombstoneTime))
		if err != nil {
			return failed(ctx, "release", l.Key, err)
		}
		tomb = append(tomb, clientv3.OpPut(s.tombKey(l.Owner), "", clientv3.WithLease(id)))
	}
	k := leaseKey{l.Key, l.Owner}
	answer, err := s.client.Txn(ctx).Then(s.releaseOp(k, tomb...)).Commit()
	if err != nil {
		if l.Unanswered {
			s.ended(s.tombs, s.tombs.current(), err)
		}
		return failed(ctx, "release", l.Key, err)
	}
	s.forget(k)
	if !answer.Responses[0].GetResponseTxn().Succeeded {
		return driver.ErrNotHeld
	}
	return nil
}

// ReleaseAll implements [driver.BulkReleaser], with up to 64 leases in one transaction.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	if len(batch) == 0 {
		return nil
	}
	var at []int
	seen := make(map[leaseKey]bool)
	flush := func() {
		if len(at) > 0 {
			s.releaseSome(ctx, batch, at, out)
			at = at[:0]
			clear(seen)
		}
	}
	for i := range batch {
		l := &batch[i]
		k := leaseKey{l.Key, l.Owner}
		if l.Unanswered {
			flush() // keeps the order of two releases of one lease
			out[i] = s.Release(ctx, *l)
			continue
		}
		if len(at) == maxReleases || seen[k] { // a transaction compares before it deletes
			flush()
		}
		at = append(at, i)
		seen[k] = true
	}
	flush()
	return nil
}

// releaseSome releases the leases at the given places of a batch in one transaction.
func (s *Store) releaseSome(ctx context.Context, batch []driver.Lease, at []int, out []error) {
	fail := func(ctx context.Context, err error) {
		for _, i := range at {
			out[i] = failed(ctx, "release", batch[i].Key, err)
		}
	}
	inner, end, err := s.begin(ctx)
	if err != nil {
		for _, i := range at {
			out[i] = err
		}
		return
	}
	defer end()
	ops := make([]clientv3.Op, len(at))
	for n, i := range at {
		ops[n] = s.releaseOp(leaseKey{batch[i].Key, batch[i].Owner})
	}
	answer, err := s.client.Txn(inner).Then(ops...).Commit()
	if err != nil {
		fail(inner, err)
		return
	}
	for n, i := range at {
		s.forget(leaseKey{batch[i].Key, batch[i].Owner})
		out[i] = nil
		if !answer.Responses[n].GetResponseTxn().Succeeded {
			out[i] = driver.ErrNotHeld
		}
	}
}
