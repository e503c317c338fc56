// Acquire, and the transactions that grant a lock.

package etcdstore

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

var errGivenUp = fmt.Errorf("etcdstore: %w: the acquisition was given up", driver.ErrNotAcquired)

// Acquire implements [driver.Store]. It does not overtake waiters. The token is the create
// revision of the key.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	var l driver.Lease
	err := s.call(ctx, "acquire", func(ctx context.Context) (err error) {
		var st standing
		l, st, err = s.tryAcquire(ctx, r)
		if err == nil && l.Token == 0 {
			err = &driver.HeldError{Key: r.Key, ExpiresIn: s.expiresIn(ctx, st.lock)}
		}
		return err
	})
	return l, err
}

// standing is what the server knew of a key when it did not grant a request.
type standing struct {
	lock     *mvccpb.KeyValue // nil: nobody holds it
	place    *mvccpb.KeyValue // of this owner; nil: it has none
	before   *mvccpb.KeyValue // the last place before that of this owner, or of all; nil: there is none
	revision int64            // of the answer
}

// tryAcquire asks once. The lease has a token if it was granted. If the server does not know
// the etcd lease any more, it has written nothing, and tryAcquire asks with another one.
func (s *Store) tryAcquire(ctx context.Context, r driver.Request) (driver.Lease, standing, error) {
	l, st, err := s.askOnce(ctx, r)
	if isLeaseNotFound(err) {
		l, st, err = s.askOnce(ctx, r)
	}
	return l, st, err
}

func (s *Store) askOnce(ctx context.Context, r driver.Request) (driver.Lease, standing, error) {
	of := s.sessionFor(r.TTL)
	id, sent, err := of.fresh(ctx, r.TTL)
	if err != nil {
		return driver.Lease{}, standing{}, driver.NotSent.Error(err)
	}
	lock, tomb, queue := s.lockKey(r.Key), s.tombKey(r.Owner), s.queueKeys(r.Key)
	answer, err := s.write(r, of, id, s.client.Txn(ctx).If(
		clientv3.Compare(clientv3.CreateRevision(lock), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(tomb), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(queue), "=", 0).WithPrefix(), // the queue is empty
	).Then(s.withState(r, s.grantOps(r, id))...).Else(s.withState(r, s.lookOps(r))...))
	if err != nil {
		return driver.Lease{}, standing{}, err
	}
	if answer.Succeeded {
		l, err := s.granted(r, of, answer, sent)
		return l, standing{}, err
	}
	st, err := s.look(ctx, r, answer)
	if err != nil {
		return driver.Lease{}, st, err
	}
	if st.lock != nil {
		if owner, _, _ := parse(st.lock); owner == r.Owner {
			l, err := s.again(ctx, r, st.lock, answer)
			return l, st, err
		}
		return driver.Lease{}, st, nil
	}
	if st.place != nil && st.before == nil {
		return s.takePlace(ctx, r, of, id, sent, st)
	}
	return driver.Lease{}, st, nil
}

// takePlace grants a lock to the first place in its queue.
func (s *Store) takePlace(ctx context.Context, r driver.Request, of *session, id clientv3.LeaseID, sent time.Time, st standing) (driver.Lease, standing, error) {
	place, rank := s.placeKey(r.Key, r.Owner), st.place.CreateRevision
	ops := append(s.grantOps(r, id), clientv3.OpDelete(place))
	answer, err := s.write(r, of, id, s.client.Txn(ctx).If(
		clientv3.Compare(clientv3.CreateRevision(s.lockKey(r.Key)), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(s.tombKey(r.Owner)), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(place), "=", rank),
		clientv3.Compare(clientv3.CreateRevision(s.queueKeys(r.Key)), ">", rank-1).WithPrefix(), // it is the first place
	).Then(s.withState(r, ops)...).Else(s.lookOps(r)...))
	if err != nil {
		return driver.Lease{}, standing{}, err
	}
	if answer.Succeeded {
		l, err := s.granted(r, of, answer, sent)
		return l, standing{}, err
	}
	st, err = s.look(ctx, r, answer)
	return driver.Lease{}, st, err
}

// grantOps write a lock.
func (s *Store) grantOps(r driver.Request, id clientv3.LeaseID) []clientv3.Op {
	meta := clientv3.OpDelete(s.metaKey(r.Key))
	if m := r.Metadata(); m != "" {
		meta = clientv3.OpPut(s.metaKey(r.Key), m, clientv3.WithLease(id))
	}
	return []clientv3.Op{clientv3.OpPut(s.lockKey(r.Key), valueOf(r.Owner), clientv3.WithLease(id)), meta}
}

// granted records the grant of a transaction and returns its lease.
func (s *Store) granted(r driver.Request, of *session, answer *clientv3.TxnResponse, sent time.Time) (driver.Lease, error) {
	revision := answer.Header.Revision
	s.hold(leaseKey{r.Key, r.Owner}, of, sent.Add(r.TTL), revision, 0)
	saved, err := savedIn(r, answer)
	if err != nil {
		return driver.Lease{}, err
	}
	return driver.Lease{Request: r, Token: uint64(revision), Sent: sent, Saved: saved}, nil //nolint:gosec // a revision is above 0
}

// lookOps read what look returns.
func (s *Store) lookOps(r driver.Request) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(s.lockKey(r.Key)),
		clientv3.OpGet(s.tombKey(r.Owner), clientv3.WithCountOnly()),
		clientv3.OpGet(s.placeKey(r.Key, r.Owner)),
		clientv3.OpGet(s.queueKeys(r.Key), clientv3.WithLastCreate()...),
	}
}

// look reads the answer to lookOps. If this owner has a place, it asks for the place before that.
func (s *Store) look(ctx context.Context, r driver.Request, answer *clientv3.TxnResponse) (standing, error) {
	st := standing{
		lock:     only(answer.Responses[0]),
		place:    only(answer.Responses[2]),
		before:   only(answer.Responses[3]),
		revision: answer.Header.Revision,
	}
	if answer.Responses[1].GetResponseRange().Count > 0 {
		return st, errGivenUp
	}
	if st.lock != nil {
		if _, _, ok := parse(st.lock); !ok {
			return st, driver.ErrWrongType
		}
	}
	if st.place == nil {
		return st, nil
	}
	options := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(st.place.CreateRevision-1))
	got, err := s.client.Get(ctx, s.queueKeys(r.Key), options...)
	if err != nil {
		return st, err
	}
	st.before = nil
	if len(got.Kvs) > 0 {
		st.before = got.Kvs[0]
	}
	return st, nil
}

// only returns the key of a read of one key, nil if it is missing.
func only(op *etcdserverpb.ResponseOp) *mvccpb.KeyValue {
	if kvs := op.GetResponseRange().Kvs; len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// again extends the lease that an owner has already, as a transaction has found.
func (s *Store) again(ctx context.Context, r driver.Request, lock *mvccpb.KeyValue, answer *clientv3.TxnResponse) (driver.Lease, error) {
	saved, err := savedIn(r, answer)
	if err != nil {
		return driver.Lease{}, err
	}
	l := driver.Lease{Request: r, Token: uint64(lock.CreateRevision), Sent: time.Now(), Saved: saved} //nolint:gosec // a revision is above 0
	var out [1]renewal.Outcome
	if err := s.renew(ctx, []driver.Lease{l}, out[:]); err != nil {
		return driver.Lease{}, err
	}
	if out[0] != renewal.Renewed {
		return driver.Lease{}, errEndedMeanwhile
	}
	return l, nil
}

var errEndedMeanwhile = fmt.Errorf("%w: the lease of this owner ended during the request", driver.ErrUnavailable)

// write commits a transaction that may attach a lock or a place of an owner to an etcd lease. It
// records that before it sends the transaction, because the answer may be lost.
func (s *Store) write(r driver.Request, of *session, id clientv3.LeaseID, txn clientv3.Txn) (*clientv3.TxnResponse, error) {
	k := leaseKey{r.Key, r.Owner}
	a, err := of.beginAttempt(k, time.Now().Add(r.TTL))
	if err != nil {
		return nil, err
	}
	answer, err := txn.Commit()
	refused := isRefusal(err)
	of.endAttempt(k, a, err == nil || refused)
	if refused {
		s.ended(of, id, err)
		err = driver.NotSent.Error(err)
	}
	return answer, err
}

// ended forgets an etcd lease that the server does not know any more.
func (s *Store) ended(of *session, id clientv3.LeaseID, err error) {
	if isLeaseNotFound(err) {
		of.end(id)
	}
}

// expiresIn returns the time until the etcd lease of a lock ends, as the server sees it, rounded
// up; 0 if that is not known.
func (s *Store) expiresIn(ctx context.Context, lock *mvccpb.KeyValue) time.Duration {
	if lock == nil {
		return 0
	}
	answer, err := s.client.TimeToLive(ctx, clientv3.LeaseID(lock.Lease))
	if err != nil || answer.TTL < 0 {
		return 0
	}
	return time.Duration(answer.TTL+1) * time.Second
}
