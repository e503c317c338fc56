package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// urls returns the URL of a store of each kind, on servers that end with the test.
func urls(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "locks.db"),
		"etcd":   "etcd://" + startEtcd(t),
	}
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

// build builds the program in a folder.
func build(t *testing.T, folder string) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "program.exe") // the suffix matters on Windows only
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", exe, ".")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exe
}

// startEtcd starts a server and returns its address. The program of the server is in another module.
func startEtcd(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(build(t, "../../../lock/etcdstore/check/etcd"), t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, in.Close())
		assert.NoError(t, cmd.Wait())
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(address)
}

// missing reports whether a server is not installed. In CI that is a failure.
func missing(t *testing.T, err error) bool {
	t.Helper()
	if testprocess.IsMissing(err) {
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

// TestTheDemoBuildsTheStores runs the command renewdemo as a process. It has no drivers of databases, so
// it builds and runs the program of this folder.
func TestTheDemoBuildsTheStores(t *testing.T) {
	exe := build(t, "..")
	demo := func(store string) (out string, code int) {
		cmd := exec.Command(exe, "-leases", "20", "-ttl", "3s", "-for", "2s", "-store", store)
		text, _ := cmd.CombinedOutput()
		return string(text), cmd.ProcessState.ExitCode()
	}
	file := filepath.Join(t.TempDir(), "locks.db")
	out, code := demo("sqlite:" + file)
	assert.Zero(t, code, "%s", out)
	assert.Contains(t, out, "on SQLite in "+file)
	assert.Contains(t, out, "held 20 of 20 leases to the end")

	out, code = demo("sqlite:")
	assert.Equal(t, 1, code, "%s", out)
	assert.Contains(t, out, "-store needs a file")
}
