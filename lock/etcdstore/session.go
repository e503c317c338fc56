package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// session is the etcd lease that all locks of one TTL share.
type session struct {
	store   *Store
	seconds int64

	// Each holds a value while a call renews the lease, so that calls at the same time share a request.
	// Calls of Renew have a turn of their own, because they must not wait for acquisitions. Only the
	// other one grants a lease.
	renewing  chan struct{}
	acquiring chan struct{}

	// Guarded by Store.mu.
	id   clientv3.LeaseID // NoLease: none was granted yet, or the last one has ended
	sent time.Time        // of the last request that was answered with the whole TTL
}

func newSession(s *Store, seconds int64) *session {
	return &session{store: s, seconds: seconds, renewing: make(chan struct{}, 1), acquiring: make(chan struct{}, 1)}
}

func (of *session) ttl() time.Duration { return time.Duration(of.seconds) * time.Second }

// sessionFor returns the session for a TTL, which is rounded up to seconds.
func (s *Store) sessionFor(ttl time.Duration) *session {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[seconds]
	if of == nil {
		of = newSession(s, seconds)
		s.sessions[seconds] = of
	}
	return of
}

func (of *session) current() clientv3.LeaseID {
	id, _ := of.state()
	return id
}

func (of *session) state() (clientv3.LeaseID, time.Time) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	return of.id, of.sent
}

// granted records a new etcd lease.
func (of *session) granted(id clientv3.LeaseID, sent time.Time) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	of.id, of.sent = id, sent
}

// renewed records a renewal of an etcd lease, unless the session has another one by now.
func (of *session) renewed(id clientv3.LeaseID, sent time.Time) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	if of.id == id && sent.After(of.sent) {
		of.sent = sent
	}
}

// end records that an etcd lease has ended, and its locks with it. It does nothing if the session has
// another lease by now.
func (of *session) end(id clientv3.LeaseID) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	if of.id != id {
		return
	}
	for k, rec := range of.store.leases {
		if rec.session == of {
			delete(of.store.leases, k)
			delete(of.store.moves, k)
		}
	}
	of.id, of.sent = clientv3.NoLease, time.Time{}
}

// renewedSince returns the etcd lease, with a renewal that was sent at the given instant or later,
// and the instant of sending of that renewal. If there is no lease, or it has ended, it grants one.
func (of *session) renewedSince(ctx context.Context, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	id, sent, err := of.inTurn(ctx, of.renewing, func(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
		return of.renew(ctx, notBefore)
	})
	if err != nil || id != clientv3.NoLease {
		return id, sent, err
	}
	return of.acquiredSince(ctx, notBefore)
}

// acquiredSince is renewedSince for an acquisition.
func (of *session) acquiredSince(ctx context.Context, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	return of.inTurn(ctx, of.acquiring, func(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
		id, sent, err := of.renew(ctx, notBefore)
		if err != nil || id != clientv3.NoLease {
			return id, sent, err
		}
		return of.grant(ctx)
	})
}

// inTurn calls f while no other call has the turn. The time of f is bounded, whatever ctx is, because
// the others wait for it.
func (of *session) inTurn(
	ctx context.Context, turn chan struct{}, f func(ctx context.Context) (clientv3.LeaseID, time.Time, error),
) (clientv3.LeaseID, time.Time, error) {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return 0, time.Time{}, context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, min(of.ttl()/2, maxTurn))
	defer cancel()
	id, sent, err := f(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = errNoAnswer
	}
	return id, sent, err
}

// renew renews the etcd lease, unless that was done since the given instant. It returns NoLease if
// there is none. After a renewal, leases that their holders no longer renew are removed.
func (of *session) renew(ctx context.Context, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	id, sent := of.state()
	switch {
	case id == clientv3.NoLease, !sent.Before(notBefore):
		return id, sent, nil
	case of == of.store.tombs:
		return clientv3.NoLease, time.Time{}, nil
	}
	err := retry(ctx, of.ttl(), func(ctx context.Context) error {
		sent = time.Now()
		return of.store.keepAlive(ctx, id)
	})
	switch {
	case isLeaseNotFound(err):
		of.end(id)
		return clientv3.NoLease, time.Time{}, nil
	case err != nil:
		return clientv3.NoLease, time.Time{}, err
	}
	of.renewed(id, sent)
	bounded, cancel := context.WithTimeout(ctx, min(of.ttl()/9, maxRequest))
	defer cancel()
	of.store.removeEnded(bounded, of)
	return id, sent, nil
}

// grant gets an etcd lease. One whose answer is lost ends with its TTL.
func (of *session) grant(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
	var sent time.Time
	var answer *clientv3.LeaseGrantResponse
	err := retry(ctx, of.ttl(), func(ctx context.Context) (err error) {
		sent = time.Now()
		answer, err = of.store.client.Grant(ctx, of.seconds)
		return err
	})
	if err != nil {
		return clientv3.NoLease, time.Time{}, err
	}
	if answer.TTL != of.seconds {
		_, _ = of.store.client.Revoke(ctx, answer.ID)
		return clientv3.NoLease, time.Time{}, fmt.Errorf("%w: the server grants %d s instead of %d s (Options.MinTTL)", driver.ErrBadTTL, answer.TTL, of.seconds)
	}
	of.granted(answer.ID, sent)
	return answer.ID, sent, nil
}

// fresh returns the etcd lease of the session and the instant of its last renewal. It renews it
// first if more than a third of the TTL has passed since.
func (of *session) fresh(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, time.Time, error) {
	return of.acquiredSince(ctx, time.Now().Add(-ttl/3))
}

// keepAlive renews an etcd lease once. KeepAliveOnce of the client would try again and again
// without a pause while the server cannot be reached.
func (s *Store) keepAlive(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := etcdserverpb.NewLeaseClient(s.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return rpctypes.Error(err)
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return rpctypes.Error(err)
	}
	answer, err := stream.Recv()
	switch {
	case err != nil:
		return rpctypes.Error(err)
	case answer.TTL <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

// retry calls f until it is answered, at most three times. The client chooses another member for
// each call, so a member that hangs does not cost the lease. The last call has all the time of
// ctx. Nothing that f asks may take effect late.
func retry(ctx context.Context, ttl time.Duration, f func(ctx context.Context) error) error {
	for range 2 {
		bounded, cancel := context.WithTimeout(ctx, min(ttl/9, maxRequest))
		err := f(bounded)
		overdue := bounded.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !overdue {
			return err
		}
	}
	return f(ctx)
}

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}
