// Renew, and moving a lease to the session of another TTL.

package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

// maxOps is the number of operations in a transaction that a server accepts by default.
const maxOps = 128

// maxTxns is the number of transactions of one Renew that are under way at one time.
const maxTxns = 4

// Renew implements [renewal.Renewer]. It renews the etcd leases of the batch, one for each TTL,
// and reads the keys of the batch to see that they still belong to them.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	ctx, end, err := s.begin(ctx, maxTurn)
	if err != nil {
		return err
	}
	defer end()
	if err := s.renew(ctx, batch, out); err != nil {
		return s.failed(ctx, fmt.Sprintf("renew %d leases", len(batch)), err)
	}
	return nil
}

// sessionRenewal is the renewal of the session of one TTL.
type sessionRenewal struct {
	session *session
	id      clientv3.LeaseID
	err     error
}

func (s *Store) renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	start := time.Now()
	sessions := make(map[time.Duration]*sessionRenewal)
	ending := make([]bool, len(batch))
	var wg sync.WaitGroup
	for i := range batch {
		l := &batch[i]
		ending[i] = !s.touch(l, start)
		if sessions[l.TTL] == nil {
			of := &sessionRenewal{session: s.sessionFor(l.TTL)}
			sessions[l.TTL] = of
			wg.Go(func() { of.id, _, of.err = of.session.renewedSince(ctx, start) })
		}
	}
	kvs, errs := s.read(ctx, batch)
	wg.Wait()
	for i := range batch {
		of := sessions[batch[i].TTL]
		err := errs[i/maxOps]
		switch {
		case err != nil:
		case !isHeldBy(kvs[i], &batch[i]):
			out[i] = renewal.LostTaken
			if kvs[i] == nil {
				out[i] = renewal.LostMissing
			}
			s.forget(leaseKey{batch[i].Key, batch[i].Owner})
		case ending[i]:
			out[i] = renewal.LostMissing
		case of.err != nil:
			err = of.err
		default:
			out[i], err = s.extend(ctx, &batch[i], of, kvs[i], start)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return cmp.Or(errs...)
}

// read returns the locks of a batch, nil for those that are missing, and an error for each
// transaction of maxOps locks.
func (s *Store) read(ctx context.Context, batch []driver.Lease) ([]*mvccpb.KeyValue, []error) {
	kvs := make([]*mvccpb.KeyValue, len(batch))
	errs := make([]error, (len(batch)+maxOps-1)/maxOps)
	shortest := driver.MaxTTL
	for i := range batch {
		shortest = min(shortest, batch[i].TTL)
	}
	_ = storekit.Each(len(errs), maxTxns, func(n int) error {
		first := n * maxOps
		some := batch[first:min(first+maxOps, len(batch))]
		ops := make([]clientv3.Op, len(some))
		for i := range some {
			ops[i] = clientv3.OpGet(s.lockKey(some[i].Key))
		}
		var answers []*etcdserverpb.ResponseOp
		errs[n] = retry(ctx, shortest, func(ctx context.Context) (err error) {
			answers, err = s.each(ctx, ops)
			return err
		})
		for i, op := range answers {
			kvs[first+i] = only(op)
		}
		return nil
	})
	return kvs, errs
}

// each commits operations that do not depend on each other, in as few transactions as the server accepts.
func (s *Store) each(ctx context.Context, ops []clientv3.Op) (answers []*etcdserverpb.ResponseOp, err error) {
	for len(ops) > 0 {
		limit := s.txnOps.Load()
		n := min(len(ops), int(limit))
		answer, err := s.client.Txn(ctx).Then(ops[:n]...).Commit()
		switch {
		case err == nil:
			answers, ops = append(answers, answer.Responses...), ops[n:]
		case errors.Is(err, rpctypes.ErrTooManyOps) && n > 1: // the server has a lower --max-txn-ops
			s.txnOps.CompareAndSwap(limit, int32(n/2)) //nolint:gosec // at most maxOps
		default:
			return nil, err
		}
	}
	return answers, nil
}

// isHeldBy reports whether a lock belongs to the owner of a lease, by its token.
func isHeldBy(kv *mvccpb.KeyValue, l *driver.Lease) bool {
	return kv != nil && string(kv.Value) == valueOf(l.Owner) && kv.Lease != 0 && uint64(kv.CreateRevision) == l.Token //nolint:gosec // a revision is above 0
}

// extend decides about a lease that is held, after its session was renewed. A lease that got
// another TTL moves to the session of that, unless it has more time left where it is.
func (s *Store) extend(ctx context.Context, l *driver.Lease, of *sessionRenewal, kv *mvccpb.KeyValue, start time.Time) (renewal.Outcome, error) {
	k, until := leaseKey{l.Key, l.Owner}, start.Add(l.TTL)
	for range 3 {
		to := of.id
		promised, moving := s.known(k)
		if kv.Lease != int64(of.id) && !promised.Before(until) {
			to = clientv3.LeaseID(kv.Lease)
		}
		written := kv.Lease == int64(to) && moving < kv.ModRevision
		if !written {
			var err error
			if written, err = s.move(ctx, l, to, kv); err != nil {
				return renewal.Unknown, err
			}
		}
		if written {
			if to == of.id {
				s.hold(k, of.session, until, kv.CreateRevision, 0)
			}
			return renewal.Renewed, nil
		}
		got, err := s.client.Get(ctx, s.lockKey(l.Key))
		if err != nil {
			return renewal.Unknown, err
		}
		if len(got.Kvs) == 0 || !isHeldBy(got.Kvs[0], l) {
			s.forget(k)
			if len(got.Kvs) == 0 {
				return renewal.LostMissing, nil
			}
			return renewal.LostTaken, nil
		}
		kv = got.Kvs[0]
	}
	return renewal.Unknown, errors.New("the lock changes all the time")
}

// move attaches a lock and its metadata to another etcd lease. It reports whether they were
// unchanged.
func (s *Store) move(ctx context.Context, l *driver.Lease, id clientv3.LeaseID, kv *mvccpb.KeyValue) (bool, error) {
	lock, meta := s.lockKey(l.Key), s.metaKey(l.Key)
	got, err := s.client.Get(ctx, meta)
	if err != nil {
		return false, err
	}
	ops := []clientv3.Op{clientv3.OpPut(lock, string(kv.Value), clientv3.WithLease(id))}
	var seen int64
	if len(got.Kvs) > 0 {
		seen = got.Kvs[0].ModRevision
		ops = append(ops, clientv3.OpPut(meta, string(got.Kvs[0].Value), clientv3.WithLease(id)))
	}
	k := leaseKey{l.Key, l.Owner}
	s.beginMove(k, kv.ModRevision, time.Now().Add(l.TTL))
	answer, err := s.client.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision(lock), "=", kv.ModRevision),
		clientv3.Compare(clientv3.ModRevision(meta), "=", seen),
	).Then(ops...).Commit()
	if err != nil {
		return false, err
	}
	if answer.Succeeded {
		s.endMoves(k, answer.Header.Revision)
	}
	return answer.Succeeded, nil
}
