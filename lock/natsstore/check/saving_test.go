package check

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

const stateSubject = "leasewheel.x.=aw" // of the key k

// stateful acquires the lock k and its state for an owner.
func stateful(t *testing.T, s driver.Store, owner string) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: owner, TTL: time.Hour, Attrs: &driver.Attrs{Stateful: true}})
	require.NoError(t, err)
	require.NotNil(t, l.Saved)
	return l
}

// A save gets no answer. It is executed after a later save of its holder, and after the next holder was
// granted the lock.
func TestALateSave(t *testing.T) {
	t.Parallel()
	s, direct, link := through(t)
	saves, err := seam.Of(direct).Conn.SubscribeSync(stateSubject)
	require.NoError(t, err)
	require.NoError(t, seam.Of(direct).Conn.Flush())
	l := stateful(t, s, "a:1")
	link.BlockAnswers()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- s.Save(ctx, l, 1, []byte("one"), time.Hour) }()
	late, err := saves.NextMsg(patience)
	require.NoError(t, err)
	cancel()
	require.Error(t, <-failed)
	link.Unblock()
	js, err := jetstream.New(seam.Of(direct).Conn)
	require.NoError(t, err)
	refused := func(when string) {
		t.Helper()
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: late.Subject, Header: late.Header, Data: late.Data})
		require.ErrorContains(t, err, "wrong last sequence", when)
	}
	require.Eventually(t, func() bool { return s.Save(t.Context(), l, 2, []byte("two"), time.Hour) == nil }, patience, time.Millisecond)
	refused("after a later save")
	require.NoError(t, s.Release(t.Context(), l))
	refused("the lock is free")
	next := stateful(t, direct, "b:1")
	assert.Equal(t, driver.Saved{Data: []byte("two"), Token: l.Token}, *next.Saved)
	refused("another holds the lock")
	assert.Equal(t, next.Saved, stateful(t, direct, "b:1").Saved)
}

// Two leases of one grant do not know of each other's saves.
func TestSavesByTwoCopiesOfALease(t *testing.T) {
	t.Parallel()
	s := open(t, testnats.Start(t)).(*natsstore.Store)
	first := stateful(t, s, "a:1")
	require.NoError(t, s.Save(t.Context(), first, 1, []byte("one"), time.Hour))
	second := stateful(t, s, "a:1")
	require.NoError(t, s.Save(t.Context(), second, 5, []byte("five"), time.Hour))
	for _, l := range []driver.Lease{first, second} {
		require.NoError(t, s.SetMetadata(t.Context(), l, "m")) // its message is the last one
		require.NoError(t, s.Save(t.Context(), l, 4, []byte("late"), time.Hour))
	}
	assert.Equal(t, "five", string(stateful(t, s, "a:1").Saved.Data))
}

// One of two leases of a grant was renewed for longer than the other one knows.
func TestMetadataOfALeaseThatLastsLonger(t *testing.T) {
	t.Parallel()
	s := open(t, testnats.Start(t)).(*natsstore.Store)
	r := driver.Request{Key: "k", Owner: "a:1", TTL: time.Minute}
	short, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	r.TTL = time.Hour
	_, err = s.Acquire(t.Context(), r)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.SetMetadata(t.Context(), short, "m"))
		info, err := s.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.Greater(t, info.Holders[0].ExpiresIn, 59*time.Minute)
	}
}

// A save that the server confirms costs one message, and neither a read nor a message of the lock.
func TestASaveIsOneMessage(t *testing.T) {
	t.Parallel()
	at := testnats.Start(t)
	s := open(t, at).(*natsstore.Store)
	l := stateful(t, s, "a:1")
	for i := range uint64(5) {
		require.NoError(t, s.Save(t.Context(), l, i+1, nil, time.Hour))
	}
	of, err := testnats.Connect(t, at).Stream(t.Context(), stream)
	require.NoError(t, err)
	info := of.CachedInfo().State
	assert.Equal(t, l.Token+6, info.LastSeq, "the lock, the confirmation of its state, and the saves")
	require.NoError(t, s.Forget(t.Context(), "k"))
	require.NoError(t, s.Release(t.Context(), l))
	require.Eventually(t, func() bool { // nothing stays
		info, err := of.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	}, patience, 50*time.Millisecond)
}

func TestAForeignState(t *testing.T) {
	t.Parallel()
	at := testnats.Start(t)
	s, js := open(t, at), testnats.Connect(t, at)
	for _, payload := range []string{"foreign", "1 2", "1 a ", "-1 2 "} {
		_, err := js.Publish(t.Context(), stateSubject, []byte(payload))
		require.NoError(t, err)
		r := driver.Request{Key: "k", Owner: "a:" + payload, TTL: time.Hour, Attrs: &driver.Attrs{Stateful: true}}
		_, err = s.Acquire(t.Context(), r)
		require.EqualError(t, err, `natsstore: acquire: the subject of the state holds something else`)
		require.NotErrorIs(t, err, driver.ErrWrongType)
		require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), "it was granted")
	}
}

// refusing refuses messages as the leader of a replicated stream does while a save is not stored yet.
type refusing struct {
	jetstream.JetStream
	until time.Time
	tries int // since until was set
}

func (r *refusing) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	r.tries++
	if time.Now().Before(r.until) {
		return nil, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant}
	}
	return r.JetStream.PublishMsg(ctx, m, o...)
}

func TestCallsWaitForASlowSave(t *testing.T) {
	t.Parallel()
	at := testnats.Start(t)
	s := open(t, at).(*natsstore.Store)
	js := new(refusing)
	own := seam.Of(s).JetStream
	js.JetStream, *own = *own, js
	l := stateful(t, s, "a:1")
	other, err := s.Acquire(t.Context(), driver.Request{Key: "other", Owner: "a:2", TTL: time.Hour})
	require.NoError(t, err)
	l.State = nil // so that Renew reads the lock first
	for name, call := range map[string]func() error{
		"Renew": func() error {
			out := make([]renewal.Outcome, 1)
			err := s.Renew(t.Context(), []driver.Lease{l}, out)
			assert.Equal(t, renewal.Renewed, out[0])
			return err
		},
		"SetMetadata": func() error { return s.SetMetadata(t.Context(), l, "m") },
		"Save":        func() error { return s.Save(t.Context(), l, 1, nil, time.Hour) },
		"Release":     func() error { return s.Release(t.Context(), other) },
	} {
		js.until, js.tries = time.Now().Add(300*time.Millisecond), 0
		require.NoError(t, call(), name)
		assert.Less(t, js.tries, 30, name)
	}
	js.until = time.Now().Add(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.SetMetadata(ctx, l, "m"), context.DeadlineExceeded)
}

// A wait for a lock that is free, and one for a lock that gets free, cost no Acquire and no unsure save.
func TestAWaitReturnsTheState(t *testing.T) {
	t.Parallel()
	at := testnats.Start(t)
	s := open(t, at).(*natsstore.Store)
	wait := func(owner string, queued func()) driver.Lease {
		r := driver.Request{Key: "k", Owner: owner, TTL: time.Hour, Attrs: &driver.Attrs{Stateful: true}}
		l, err := s.Wait(t.Context(), r, queued)
		require.NoError(t, err)
		require.NotNil(t, l.Saved)
		return l
	}
	first := wait("a:1", func() {})
	require.NoError(t, s.Save(t.Context(), first, 1, []byte("one"), time.Hour))
	of, err := testnats.Connect(t, at).Stream(t.Context(), stream)
	require.NoError(t, err)
	assert.Equal(t, first.Token+2, of.CachedInfo().State.LastSeq, "the lock, the confirmation of its state, and the save")
	second := wait("b:1", func() { go func() { assert.NoError(t, s.Release(t.Context(), first)) }() })
	assert.Equal(t, driver.Saved{Data: []byte("one"), Token: first.Token}, *second.Saved)
}

// Holders count in the state while the leader of a replicated stream is killed. None finds less than what
// was confirmed before, or more than what was begun.
func TestStatesWhileTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	_, leader, others := startEnsemble(t)
	var mu sync.Mutex // guards all below
	var confirmed, begun, rounds int
	var killed bool
	count := func(held *lock.Held) {
		mu.Lock()
		defer mu.Unlock()
		rounds++
		if !held.Valid() {
			return
		}
		data, _ := held.State()
		n, _ := strconv.Atoi(string(data))
		assert.GreaterOrEqual(t, n, confirmed)
		assert.LessOrEqual(t, n, begun)
		begun = n + 1
		err := held.Save(t.Context(), fmt.Append(nil, begun))
		if err == nil {
			confirmed = begun
		}
		assert.True(t, err == nil || killed, "all servers answer: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 4 {
		m := clientOn(t, others[i%2].ConnectPatiently()).With(lock.Terms{StateTTL: time.Hour}).Mutex("k")
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				if held, err := m.Lock(ctx); err == nil { // otherwise the server does not answer
					count(held)
					_ = held.Unlock(ctx)
				}
			}
		})
	}
	progress := func() {
		t.Helper()
		mu.Lock()
		until := confirmed + 20
		mu.Unlock()
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return confirmed >= until || t.Failed()
		}, patience, time.Millisecond)
	}
	progress()
	mu.Lock()
	killed = true
	mu.Unlock()
	leader.Kill()
	progress()
	leader.Start()
	progress()
}
