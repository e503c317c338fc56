package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// urls returns the URL of a store of each kind, on servers that end with the test.
func urls(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "locks.db")}
	p, err := testsql.LaunchPostgres()
	if !missing(t, err) {
		t.Cleanup(p.Close)
		all["postgres"] = p.DSN()
	}
	m, err := testsql.LaunchMariaDB()
	if !missing(t, err) {
		t.Cleanup(m.Close)
		_, rest, _ := strings.Cut(m.DSN(), "@unix(")
		socket, _, _ := strings.Cut(rest, ")/")
		all["mysql"] = "mysql://root@localhost/test?socket=" + socket
	}
	z, err := testzk.Launch(1)
	if !missing(t, err) {
		t.Cleanup(func() { testzk.Close(z) })
		all["zk"] = "zk://" + z[0].Address
	}
	return all
}

// missing reports whether a server is not installed. In CI that is a failure.
func missing(t *testing.T, err error) bool {
	t.Helper()
	if os.Getenv("CI") == "" && (errors.Is(err, testzk.ErrMissing) || errors.As(err, new(*testsql.MissingError))) {
		t.Log("NOT TESTED: ", err)
		return true
	}
	require.NoError(t, err)
	return false
}

func TestEachStoreOpensByItsURL(t *testing.T) {
	for name, url := range urls(t) {
		t.Run(name, func(t *testing.T) {
			b, err := stores()[name](t.Context(), url)
			require.NoError(t, err, url)
			defer b.Disconnect()
			client, err := lock.New(b, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
			require.NoError(t, err)
			defer func() { assert.NoError(t, client.Close(context.Background())) }()
			held, err := client.Mutex("k").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, b.Delete(t.Context(), []string{"k"}))
			<-held.Done()
			require.ErrorIs(t, held.Err(), lock.ErrLost)
			assert.NotEmpty(t, b.Name)
		})
	}
}

func TestBadURLsAreRefusedWithoutTheirPasswords(t *testing.T) {
	for _, url := range []string{"sqlite:", "postgres:canary", "mysql:canary", "etcd:canary", "zk:canary", "postgres://user:canary@[bad/x"} {
		scheme, _, _ := strings.Cut(url, ":")
		_, err := stores()[scheme](t.Context(), url)
		require.ErrorContains(t, err, "-store", url)
		assert.NotContains(t, err.Error(), "canary")
	}
}
