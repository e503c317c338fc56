// Sessions: the etcd leases that all locks of one TTL share.

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	// Calls at the same time share a request. Calls of Renew have a turn of their own, because they must
	// not wait for acquisitions. Only the other one grants a lease.
	renewing  turn
	acquiring turn

	// Guarded by Store.mu.
	id       clientv3.LeaseID // NoLease: none was granted yet, or the last one has ended
	sent     time.Time        // of the last request that was answered with the whole TTL
	attempts map[leaseKey]*attempt
	lost     int // attempts with a request that got no answer
}

// turn lets one call at a time renew a lease. The call that has the turn owns its stream.
type turn struct {
	busy   chan struct{} // holds a value while a call has the turn
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	end    context.CancelFunc // of the stream; nil: there is none
}

func newSession(s *Store, seconds int64) *session {
	return &session{
		store: s, seconds: seconds, attempts: make(map[leaseKey]*attempt),
		renewing: turn{busy: make(chan struct{}, 1)}, acquiring: turn{busy: make(chan struct{}, 1)},
	}
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

// state returns the etcd lease, and when it was last renewed.
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

// end records that an etcd lease has ended, and its locks with it, except those that a move without an
// answer may have taken to another one. It does nothing if the session has another lease by now.
func (of *session) end(id clientv3.LeaseID) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	if of.id != id {
		return
	}
	for k, rec := range of.store.leases {
		if rec.session == of && rec.moving == 0 {
			delete(of.store.leases, k)
		}
	}
	clear(of.attempts)
	of.lost = 0
	of.id, of.sent = clientv3.NoLease, time.Time{}
}

// renewedSince returns the etcd lease, with a renewal that was sent at the given instant or later,
// and the instant of sending of that renewal. If there is no lease, or it has ended, it grants one.
func (of *session) renewedSince(ctx context.Context, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	id, sent, err := of.inTurn(ctx, &of.renewing, func(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
		return of.renew(ctx, &of.renewing, notBefore)
	})
	if err != nil || id != clientv3.NoLease {
		return id, sent, err
	}
	return of.acquiredSince(ctx, notBefore)
}

// acquiredSince is renewedSince for an acquisition.
func (of *session) acquiredSince(ctx context.Context, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	return of.inTurn(ctx, &of.acquiring, func(ctx context.Context) (clientv3.LeaseID, time.Time, error) {
		id, sent, err := of.renew(ctx, &of.acquiring, notBefore)
		if err != nil || id != clientv3.NoLease {
			return id, sent, err
		}
		return of.grant(ctx)
	})
}

// inTurn calls f while no other call has the turn. The time of f is bounded, whatever ctx is, because
// the others wait for it.
func (of *session) inTurn(
	ctx context.Context, t *turn, f func(ctx context.Context) (clientv3.LeaseID, time.Time, error),
) (clientv3.LeaseID, time.Time, error) {
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
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
func (of *session) renew(ctx context.Context, t *turn, notBefore time.Time) (clientv3.LeaseID, time.Time, error) {
	id, sent := of.state()
	switch {
	case id == clientv3.NoLease, !sent.Before(notBefore):
		return id, sent, nil
	case of == of.store.tombs:
		return clientv3.NoLease, time.Time{}, nil
	}
	err := retry(ctx, of.ttl(), func(ctx context.Context) error {
		sent = time.Now()
		return of.store.keepAlive(ctx, t, id)
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

// keepAlive renews an etcd lease once, by the stream of a turn. The stream lives on, because a server
// with passwords computes a hash of one for each new stream. KeepAliveOnce of the client opens one each
// time, and tries again and again without a pause while the server cannot be reached.
func (s *Store) keepAlive(ctx context.Context, t *turn, id clientv3.LeaseID) error {
	old := t.end != nil
	err := s.ask(ctx, t, id)
	if old && t.end == nil && ctx.Err() == nil { // the stream may have broken long ago
		err = s.ask(ctx, t, id)
	}
	return err
}

// ask renews an etcd lease by the stream of a turn. It opens one if there is none, and ends one that
// has failed or not answered before ctx ended.
func (s *Store) ask(ctx context.Context, t *turn, id clientv3.LeaseID) error {
	streaming := s.calls.Ctx
	if t.end == nil {
		streaming, t.end = context.WithCancel(clientv3.WithRequireLeader(s.calls.Ctx))
	}
	stop := context.AfterFunc(ctx, t.end)
	ttl, err := s.exchange(streaming, t, id)
	if !stop() || err != nil {
		t.end()
		t.stream, t.end = nil, nil
	}
	switch {
	case err != nil:
		return rpctypes.Error(err)
	case ttl <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

// exchange sends a request in the stream of a turn, and returns the TTL of the answer.
func (s *Store) exchange(streaming context.Context, t *turn, id clientv3.LeaseID) (ttl int64, err error) {
	if t.stream == nil {
		if t.stream, err = etcdserverpb.NewLeaseClient(s.client.ActiveConnection()).LeaseKeepAlive(streaming); err != nil {
			return 0, err
		}
	}
	err = t.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)})
	if err != nil && !errors.Is(err, io.EOF) { // after io.EOF, Recv has the error
		return 0, err
	}
	answer, err := t.stream.Recv()
	if err != nil {
		return 0, err
	}
	return answer.TTL, nil
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
