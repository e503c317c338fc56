package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unconnected returns a client that asks no server until it is used.
func unconnected(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1", "127.0.0.1:2", "http://127.0.0.1:3/"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestBadOptions(t *testing.T) {
	_, err := etcdstore.New(nil, nil)
	require.EqualError(t, err, "etcdstore: the client is nil")
	for field, o := range map[string]etcdstore.Options{
		"Options.Prefix": {Prefix: strings.Repeat("p", 257)},
		"Options.MinTTL": {MinTTL: 1500 * time.Millisecond},
	} {
		_, err = etcdstore.New(unconnected(t), &o)
		require.ErrorContains(t, err, field)
	}
	for _, ttl := range []time.Duration{-time.Second, time.Millisecond, 2 * time.Hour} {
		_, err = etcdstore.New(unconnected(t), &etcdstore.Options{MinTTL: ttl})
		require.ErrorContains(t, err, "Options.MinTTL")
	}
}

func TestTheLimitsAreThoseOfTheServer(t *testing.T) {
	s, err := etcdstore.New(unconnected(t), &etcdstore.Options{MinTTL: 5 * time.Second})
	require.NoError(t, err)
	assert.Equal(t, driver.Description{
		Waits: true, ReleasesAll: true, Inspects: true, Lists: true, SetsMetadata: true, Saves: true,
		Yields:    driver.ModesOf(driver.Exclusive),
		TTL:       driver.TTLLimits{Min: 5 * time.Second, Step: time.Second, Shared: true, Slack: 2 * time.Second},
		Addresses: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
	}, s.Describe())
	_, err = lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 4 * time.Second}})
	require.ErrorIs(t, err, lock.ErrBadTTL)

	// No server answers, so whatever is refused is refused before any IO.
	_, err = s.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: 4 * time.Second})
	require.ErrorIs(t, err, driver.ErrBadTTL)
	require.ErrorContains(t, err, "etcdstore: ")
	_, err = s.Wait(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: time.Minute, Mode: driver.Permit}, func() {})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: time.Minute})
	require.ErrorIs(t, err, driver.ErrStoreClosed)
}

// silentServer accepts connections and never answers.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// A call has a bound of its own, and its error has the reason of the network.
func TestCallsWithoutADeadlineEnd(t *testing.T) {
	for reason, endpoint := range map[string]string{"refused": "127.0.0.1:1", "connection": silentServer(t)} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		s, err := etcdstore.New(client, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		l := driver.Lease{Request: driver.Request{Key: "k", Owner: "a:1", TTL: 4 * time.Second}}
		unanswered := l
		unanswered.Unanswered = true
		var calls sync.WaitGroup
		for name, call := range map[string]func(ctx context.Context) error{
			"Acquire":      func(ctx context.Context) error { _, err := s.Acquire(ctx, l.Request); return err },
			"Wait":         func(ctx context.Context) error { _, err := s.Wait(ctx, l.Request, func() {}); return err },
			"Renew":        func(ctx context.Context) error { return s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) },
			"Release":      func(ctx context.Context) error { return s.Release(ctx, l) },
			"give up":      func(ctx context.Context) error { return s.Release(ctx, unanswered) },
			"Inspect":      func(ctx context.Context) error { _, err := s.Inspect(ctx, "k"); return err },
			"ForceRelease": func(ctx context.Context) error { return s.ForceRelease(ctx, "k") },
			"SetMetadata":  func(ctx context.Context) error { return s.SetMetadata(ctx, l, "") },
			"Save":         func(ctx context.Context) error { return s.Save(ctx, l, 1, nil, time.Minute) },
			"Forget":       func(ctx context.Context) error { return s.Forget(ctx, "k") },
			"List":         func(ctx context.Context) error { _, _, err := s.List(ctx, "", ""); return err },
		} {
			calls.Go(func() {
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				for _, ctx := range []context.Context{short, context.Background()} {
					err := call(ctx)
					assert.ErrorContains(t, err, reason, name)
					if name == "Acquire" || name == "Wait" {
						assert.ErrorIs(t, err, driver.ErrNotSent, name)
					}
				}
			})
		}
		defer calls.Wait()
	}
}
