package check

import (
	"context"
	"encoding/base64"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

// The contract is that of a user who has only the permissions that the package documents.
const (
	contractRoot   = "/contract/locks"
	contractDigest = "user:secret"
)

func makeRoot(t *testing.T, c *zk.Conn) {
	parent := path.Dir(contractRoot)
	require.NoError(t, c.AddAuth("digest", []byte(contractDigest)))
	_, err := c.Create(parent, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return // of an earlier run
	}
	require.NoError(t, err)
	_, err = c.Create(contractRoot, nil, zk.FlagPersistent, zk.DigestACL(zk.PermRead|zk.PermCreate|zk.PermDelete, "user", "secret"))
	require.NoError(t, err)
	_, err = c.SetACL(parent, zk.WorldACL(zk.PermRead), -1)
	require.NoError(t, err)
	_, err = zkstore.New(t.Context(), []string{c.Server()}, &zkstore.Options{Root: parent + "/other", Digest: contractDigest})
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.ErrorContains(t, err, parent+"/other")
}

func openAsUser(t *testing.T, server *testzk.Member) *zkstore.Store {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := zkstore.New(ctx, []string{server.Address}, &zkstore.Options{Root: contractRoot, Digest: contractDigest, SessionTimeout: sessionTimeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func lockPath(key string) string {
	return contractRoot + "/" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

func waiting(t *testing.T, s driver.Store, key string) int {
	info, err := s.Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Waiting
}

// deleteNodes deletes the nodes of a lock.
func deleteNodes(t *testing.T, c *zk.Conn, key string) {
	names, _, err := c.Children(lockPath(key))
	if errors.Is(err, zk.ErrNoNode) {
		return
	}
	require.NoError(t, err)
	for _, name := range names {
		if err := c.Delete(lockPath(key)+"/"+name, -1); !errors.Is(err, zk.ErrNoNode) {
			require.NoError(t, err)
		}
	}
}

func TestContract(t *testing.T) {
	server := testzk.Shared(t)
	c := connect(t, server)
	makeRoot(t, c)
	s := openAsUser(t, server)
	locktest.TestStore(t, locktest.Config{
		New:     func(*testing.T) driver.Store { return s },
		Another: func(t *testing.T, _ driver.Store) driver.Store { return openAsUser(t, server) },
		TTL:     3 * time.Second,
		Waiting: waiting,
		Modes:   []driver.Mode{driver.Read, driver.Write},
		Die: func(t *testing.T, _ driver.Store, r driver.Request) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.Wait(ctx, r, func() {})
				ended <- err
			}()
			prefix := base64.RawURLEncoding.EncodeToString([]byte(r.Owner)) + "-"
			require.Eventually(t, func() bool {
				names, _, err := c.Children(lockPath(r.Key))
				for _, name := range names {
					if strings.Contains(name, prefix) {
						return err == nil
					}
				}
				return false
			}, time.Minute, time.Millisecond)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		},
		Delete: func(t *testing.T, _ driver.Store, key string) { deleteNodes(t, c, key) },
		Spoil: func(t *testing.T, _ driver.Store, key string) {
			_, err := c.Create(lockPath(key), nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			if !errors.Is(err, zk.ErrNodeExists) {
				require.NoError(t, err)
			}
			_, err = c.Create(lockPath(key)+"/foreign", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			names, _, err := c.Children(lockPath(key))
			require.NoError(t, err)
			for _, name := range names {
				if name != "foreign" {
					_ = c.Delete(lockPath(key)+"/"+name, -1)
				}
			}
		},
		Spoiled: func(t *testing.T, _ driver.Store, key string) bool {
			ok, _, err := c.Exists(lockPath(key) + "/foreign")
			require.NoError(t, err)
			return ok
		},
	})
}
