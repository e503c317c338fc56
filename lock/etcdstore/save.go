// The state that a holder leaves to the next one.

package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// state is what the server has of the state of a key. It is zero if there is none.
type state struct {
	driver.Saved
	number   uint64           // of the save
	lease    clientv3.LeaseID // of this state only; all saves with the same TTL use it
	seconds  int64            // the TTL of that lease
	revision int64            // of the save
}

// valueOfState returns the value of a state: mark, token, number, seconds and data, with spaces between.
func valueOfState(token, number uint64, seconds int64, data []byte) string {
	return fmt.Sprintf("%s%d %d %d %s", mark, token, number, seconds, data)
}

var errNoState = fmt.Errorf("the key of the state: %w", driver.ErrWrongType)

// parseState reads a state. kv is nil if there is none. The error is errNoState for a value that this
// package has not written.
func parseState(kv *mvccpb.KeyValue) (state, error) {
	if kv == nil {
		return state{}, nil
	}
	rest, ok := bytes.CutPrefix(kv.Value, []byte(mark))
	fields := bytes.SplitN(rest, []byte(" "), 4)
	if !ok || len(fields) < 4 || kv.Lease == 0 {
		return state{}, errNoState
	}
	token, bad1 := strconv.ParseUint(string(fields[0]), 10, 64)
	number, bad2 := strconv.ParseUint(string(fields[1]), 10, 64)
	seconds, bad3 := strconv.ParseInt(string(fields[2]), 10, 64)
	if errors.Join(bad1, bad2, bad3) != nil {
		return state{}, errNoState
	}
	return state{
		Saved: driver.Saved{Token: token, Data: fields[3]}, number: number,
		lease: clientv3.LeaseID(kv.Lease), seconds: seconds, revision: kv.ModRevision,
	}, nil
}

// withState adds the read of the state to operations of a transaction, if a request asks for it.
func (s *Store) withState(r driver.Request, ops []clientv3.Op) []clientv3.Op {
	if r.Stateful() {
		ops = append(ops, clientv3.OpGet(s.stateKey(r.Key)))
	}
	return ops
}

// savedIn returns the state that a transaction with withState has read, nil for a request that does not
// ask. The error does not match ErrWrongType, because the lock may have been granted: the client
// releases it after an error that is no answer.
func savedIn(r driver.Request, answer *clientv3.TxnResponse) (*driver.Saved, error) {
	if !r.Stateful() {
		return nil, nil
	}
	st, err := parseState(only(answer.Responses[len(answer.Responses)-1]))
	if err != nil {
		return nil, errors.New("the key of the state holds something else")
	}
	return &st.Saved, nil
}

// Save implements [driver.Store]. A state has an etcd lease of its own, which Save renews, so ttl is rounded
// up to seconds, and to the shortest TTL of the server. The state lasts longer after the election of a leader.
//
// A new etcd lease may stay without a key until its TTL ends, if there is no answer to its grant or to the
// request that attaches the state to it. Each call leaves one at most.
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("etcdstore: save: %v: %w", l.Mode, errors.ErrUnsupported)
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	return s.call(ctx, "save", func(ctx context.Context) error {
		unused := clientv3.NoLease
		defer func() { s.revokeUnused(ctx, unused) }()
		// Another save, or the end of the old state, may come between the requests. Each round that fails so is
		// one in which another save was written, and after one with a higher number this one is done.
		for {
			done, err := s.saveOnce(ctx, &l, number, data, seconds, &unused)
			if done || err != nil && !isLeaseNotFound(err) {
				return err
			}
		}
	})
}

// saveOnce reports whether the state is saved. If not, and without an error, the lock or the state has
// changed since saveOnce has read it. It renews the etcd lease last, unless it has granted it, so that the
// state lasts for its TTL from the beginning of this call at least. unused is an etcd lease that has no key and
// gets none from an earlier round. saveOnce uses it rather than grant another one, and may replace it.
func (s *Store) saveOnce(
	ctx context.Context, l *driver.Lease, number uint64, data []byte, seconds int64, unused *clientv3.LeaseID,
) (bool, error) {
	old, err := s.readState(ctx, l)
	if err != nil {
		return false, err
	}
	if old.Token == l.Token && old.number >= number {
		if old.number == number { // an earlier try may have ended before its renewal
			err = s.renewState(ctx, old.lease)
		}
		return err == nil, err
	}
	id, replaces, granted := old.lease, old.seconds != seconds, false
	if replaces {
		if *unused == clientv3.NoLease {
			answer, err := s.client.Grant(ctx, seconds)
			if err != nil {
				return false, err
			}
			*unused, granted = answer.ID, true
		}
		id = *unused
	}
	written, err := s.putState(ctx, l, old, id, valueOfState(l.Token, number, seconds, data))
	switch {
	case err != nil:
		if replaces && (!isRefusal(err) || isLeaseNotFound(err)) { // it may get the key yet, or has ended
			*unused = clientv3.NoLease
		}
		return false, err
	case !written:
		return false, nil
	case replaces:
		*unused = old.lease // it gets no key any more: putState compares the revision
	}
	if !granted {
		err = s.renewState(ctx, id)
	}
	return err == nil, err
}

// readState returns the state of the key of a lease, if the lease is held.
func (s *Store) readState(ctx context.Context, l *driver.Lease) (state, error) {
	answer, err := s.client.Txn(ctx).Then(clientv3.OpGet(s.lockKey(l.Key)), clientv3.OpGet(s.stateKey(l.Key))).Commit()
	if err != nil {
		return state{}, err
	}
	if lock := only(answer.Responses[0]); !isHeldBy(lock, l) {
		return state{}, driver.ErrNotHeld
	}
	return parseState(only(answer.Responses[1]))
}

// putState writes a state if the lease is held and the old state has not changed. So a request that is
// executed late changes nothing: the lock has another create revision after a hand-over, and the state has
// another revision after a later save.
func (s *Store) putState(ctx context.Context, l *driver.Lease, old state, id clientv3.LeaseID, value string) (written bool, err error) {
	lock, key := s.lockKey(l.Key), s.stateKey(l.Key)
	answer, err := s.client.Txn(ctx).If(
		clientv3.Compare(clientv3.CreateRevision(lock), "=", int64(l.Token)), //nolint:gosec // it was a revision
		clientv3.Compare(clientv3.Value(lock), "=", valueOf(l.Owner)),
		clientv3.Compare(clientv3.ModRevision(key), "=", old.revision),
	).Then(clientv3.OpPut(key, value, clientv3.WithLease(id))).Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}

// renewState renews the etcd lease of a state.
func (s *Store) renewState(ctx context.Context, id clientv3.LeaseID) error {
	of := s.states
	_, _, err := of.inTurn(ctx, &of.renewing, func(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
		return id, time.Time{}, retry(ctx, of.ttl(), func(ctx context.Context) error { return s.keepAlive(ctx, &of.renewing, id) })
	})
	return err
}

// revokeUnused ends an etcd lease that has no keys, even if ctx has ended. If it fails, the lease ends with its TTL.
func (s *Store) revokeUnused(ctx context.Context, id clientv3.LeaseID) {
	if id == clientv3.NoLease {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = s.client.Revoke(ctx, id)
}

// Forget implements [driver.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	return s.call(ctx, "forget", func(ctx context.Context) error {
		answer, err := s.client.Delete(ctx, s.stateKey(key), clientv3.WithPrevKV())
		if err != nil {
			return err
		}
		for _, old := range answer.PrevKvs {
			s.revokeUnused(ctx, clientv3.LeaseID(old.Lease))
		}
		return nil
	})
}
