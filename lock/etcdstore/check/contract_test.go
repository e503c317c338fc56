package check

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func lockKey(key string) string { return "leasewheel/l/" + key }

func waiting(t *testing.T, s driver.Store, key string) int {
	info, err := s.Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Waiting
}

// die puts a waiter into the queue, and abandons it with its session.
func die(t *testing.T, client *clientv3.Client, r driver.Request) {
	s := open(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, r, func() {})
		ended <- err
	}()
	place := "leasewheel/q/" + hex.EncodeToString([]byte(r.Key)) + "/" + r.Owner
	require.Eventually(t, func() bool { // other dead waiters leave in the meantime
		got, err := client.Get(t.Context(), place, clientv3.WithCountOnly())
		return err == nil && got.Count == 1
	}, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

const prefix = "leasewheel/"

// withUsers makes servers ask for passwords. The user locks has the permissions that a store needs,
// and the user nothing has none.
func withUsers(t *testing.T, members []*member) {
	t.Helper()
	client, ctx := connect(t, members...), t.Context()
	for _, user := range []string{"root", "locks", "nothing"} {
		_, err := client.UserAdd(ctx, user, user)
		require.NoError(t, err)
	}
	_, err := client.RoleAdd(ctx, "locks")
	require.NoError(t, err)
	_, err = client.RoleGrantPermission(ctx, "locks", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	for _, user := range []string{"root", "locks"} {
		_, err = client.UserGrantRole(ctx, user, user)
		require.NoError(t, err)
	}
	_, err = client.AuthEnable(ctx)
	require.NoError(t, err)
}

func TestContract(t *testing.T) {
	client := connect(t, startCluster(t, 1)...)
	value := func(t *testing.T, key string) string {
		got, err := client.Get(t.Context(), lockKey(key))
		require.NoError(t, err)
		if len(got.Kvs) == 0 {
			return ""
		}
		return string(got.Kvs[0].Value)
	}
	locktest.TestStore(t, locktest.Config{
		New:      func(t *testing.T) driver.Store { return open(t, client) },
		Another:  func(t *testing.T, _ driver.Store) driver.Store { return open(t, client) },
		TTL:      6 * time.Second,
		Explains: true,
		Waiting:  waiting,
		Die:      func(t *testing.T, _ driver.Store, r driver.Request) { die(t, client, r) },
		Delete: func(t *testing.T, _ driver.Store, key string) {
			_, err := client.Delete(t.Context(), lockKey(key))
			require.NoError(t, err)
		},
		Spoil: func(t *testing.T, _ driver.Store, key string) {
			_, err := client.Put(t.Context(), lockKey(key), "foreign")
			require.NoError(t, err)
		},
		Spoiled: func(t *testing.T, _ driver.Store, key string) bool { return value(t, key) == "foreign" },
	})
}
