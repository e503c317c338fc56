package check

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// through returns a store whose connection has a proxy.
func through(t *testing.T) (s *natsstore.Store, direct *natsstore.Store, link *testproxy.Proxy) {
	t.Helper()
	at := testnats.Start(t)
	direct = open(t, at).(*natsstore.Store)
	link, err := testproxy.New("tcp", at.Addr().String())
	require.NoError(t, err)
	t.Cleanup(link.Close)
	return openOn(t, testnats.ConnectTo(t, link.Addr()), nil), direct, link
}

// Calls end without a deadline of their caller, and tell what the network says. A message that is not
// sent at once is never sent.
func TestCallsWithoutADeadline(t *testing.T) {
	t.Parallel()
	s, direct, link := through(t)
	l, err := s.Acquire(t.Context(), driver.Request{Key: "held", Owner: "a:1", TTL: time.Hour})
	require.NoError(t, err)
	*seam.Of(s).Bound = 500 * time.Millisecond
	link.Close()
	require.Eventually(t, func() bool { return seam.Of(s).Conn.IsReconnecting() }, patience, time.Millisecond)
	forever, free := context.Background(), driver.Request{Key: "free", Owner: "a:2", TTL: time.Hour}
	for name, call := range map[string]func() error{
		"Acquire": func() error {
			_, err := s.Acquire(forever, free)
			assert.ErrorIs(t, err, driver.ErrNotSent)
			return err
		},
		"Wait": func() error {
			l, err := s.Wait(forever, free, func() {})
			assert.False(t, l.Unanswered)
			return err
		},
		"Release":      func() error { return s.Release(forever, l) },
		"SetMetadata":  func() error { return s.SetMetadata(forever, l, "m") },
		"Save":         func() error { return s.Save(forever, l, 1, nil, time.Hour) },
		"Forget":       func() error { return s.Forget(forever, l.Key) },
		"ForceRelease": func() error { return s.ForceRelease(forever, l.Key) },
		"Inspect":      func() error { _, err := s.Inspect(forever, l.Key); return err },
		"List":         func() error { _, _, err := s.List(forever, "", ""); return err },
		"Renew": func() error {
			l := l
			l.State = nil // it reads the lock first
			return s.Renew(forever, []driver.Lease{l}, make([]renewal.Outcome, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.ErrorContains(t, err, "natsstore: ")
			require.ErrorContains(t, err, "no answer within 500ms")
			require.ErrorContains(t, err, ": the connection is reconnecting")
		})
	}
	info, err := direct.Inspect(t.Context(), free.Key)
	require.NoError(t, err)
	assert.Zero(t, info.Held)
}

// The answers to a grant are lost, and so is each try to release it, while the client holds and renews
// another lock. The lock is free after its TTL, and as soon as the client is heard again.
func TestAGrantWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, heal := range map[string]bool{"the client is heard again": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, direct, link := through(t)
			ttl := 2 * time.Second
			if heal {
				ttl = time.Hour
			}
			client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: ttl}, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = client.Close(ctx)
			})
			_, err = client.Mutex("other").TryLock(t.Context())
			require.NoError(t, err)

			link.BlockAnswers()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				for { // until the server has granted the lock
					info, err := direct.Inspect(t.Context(), "k")
					if err != nil || info.Held == 1 {
						return
					}
				}
			}()
			_, err = client.Mutex("k").TryLock(ctx)
			require.Error(t, err)
			if heal {
				link.Unblock()
			}
			began := time.Now()
			bounded, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err = direct.Wait(bounded, driver.Request{Key: "k", Owner: "b:1", TTL: time.Hour}, func() {})
			require.NoError(t, err)
			assert.Less(t, time.Since(began), patience/2)
		})
	}
}
