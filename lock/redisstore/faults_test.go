package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

// wrongSetup is a mistake in the set-up of a client, and the errors that it causes.
type wrongSetup struct {
	client func(t *testing.T) redis.UniversalClient
	want   string // in each error
	is     string // a word of the server in each error, by which OPERATIONS.md names it
	code   string // of the finding of a Check; "": none is expected
	only   string // the calls that fail, if not all do
}

// Each mistake has one text, which says what to do, in each call and from the first one. OPERATIONS.md has the same texts.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	if !testredis.Since(7, 0) {
		t.Skip("older servers have other texts")
	}
	of := func(args ...string) func(t *testing.T, o redis.Options) redis.UniversalClient {
		return func(t *testing.T, o redis.Options) redis.UniversalClient {
			o.Addr = testredis.Start(t, args...).Addr()
			return newClient(t, &o)
		}
	}
	user := func(rules string) func(t *testing.T) redis.UniversalClient {
		return func(t *testing.T) redis.UniversalClient {
			srv := testredis.Start(t)
			rule := append([]any{"acl", "setuser", "limited", "reset", "on", ">pw"}, fields(rules)...)
			require.NoError(t, srv.Client(t).Do(t.Context(), rule...).Err())
			return newClient(t, &redis.Options{Addr: srv.Addr(), Username: "limited", Password: "pw"})
		}
	}
	sentinel := func(master string) func(t *testing.T) redis.UniversalClient {
		return func(t *testing.T) redis.UniversalClient {
			path := filepath.Join(t.TempDir(), "sentinel.conf")
			require.NoError(t, os.WriteFile(path, []byte("sentinel monitor m 127.0.0.1 1 1\n"), 0o600))
			addr := testredis.Start(t, path, "--sentinel").Addr()
			if master == "" {
				return newClient(t, &redis.Options{Addr: addr})
			}
			rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: master, SentinelAddrs: []string{addr}})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
	}
	page, err := os.ReadFile("../../docs/OPERATIONS.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "## Errors of Redis")
	table, _, _ = strings.Cut(table, "\n## ")
	const scripts = "TryLock Lock RLock Inspect Release"
	for name, c := range map[string]wrongSetup{
		"no password": {
			client: func(t *testing.T) redis.UniversalClient { return of("--requirepass", "x")(t, redis.Options{}) },
			want:   "NOAUTH Authentication required; set Password in the options of the client, or in the URL", code: "login",
		},
		"no password for the master of a Sentinel": {
			client: func(t *testing.T) redis.UniversalClient {
				_, port, err := net.SplitHostPort(testredis.Start(t, "--requirepass", "x").Addr())
				require.NoError(t, err)
				path := filepath.Join(t.TempDir(), "sentinel.conf")
				require.NoError(t, os.WriteFile(path, []byte("sentinel monitor m 127.0.0.1 "+port+" 1\n"), 0o600))
				rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{testredis.Start(t, path, "--sentinel").Addr()}})
				t.Cleanup(func() { _ = rdb.Close() })
				return rdb
			},
			want: "NOAUTH Authentication required; set Password in the options of the client, or in the URL", code: "login",
		},
		"a wrong password": {
			client: func(t *testing.T) redis.UniversalClient {
				return of("--requirepass", "x")(t, redis.Options{Password: "p"})
			},
			want: "WRONGPASS invalid username-password pair or user is disabled; check Username and Password in the options of the client, or in the URL", code: "login",
		},
		"a server with TLS": {
			client: func(t *testing.T) redis.UniversalClient { return newClient(t, &redis.Options{Addr: startTLS(t)}) },
			want:   "; the server has not answered anything yet: one that speaks TLS only needs TLSConfig, or a URL that begins with rediss://", code: "unreachable",
		},
		"a wrong name of the master": {
			client: sentinel("other"),
			want:   "no Sentinel knows a master of that name; check MasterName in the redis.FailoverOptions, or master_name in the URL", code: "unreachable",
		},
		"a Sentinel": {
			client: sentinel(""), only: scripts,
			want: "this is a Sentinel, which keeps no locks: use redis.NewFailoverClient, with its address in SentinelAddrs", code: "sentinel",
		},
		"a replica": {
			client: func(t *testing.T) redis.UniversalClient {
				host, port, err := net.SplitHostPort(testredis.Start(t).Addr())
				require.NoError(t, err)
				return of("--replicaof", host, port)(t, redis.Options{})
			},
			only: "TryLock Lock RLock Renew Release", code: "replica", is: "READONLY",
			want: "; this server is a replica: use the address of its master, or redis.NewFailoverClient",
		},
		"a node of a cluster": {
			client: func(t *testing.T) redis.UniversalClient {
				c := testredis.StartCluster(t, 3, false)
				slots, err := c.Masters[0].Client(t).ClusterSlots(t.Context()).Result() //nolint:staticcheck // its replacement needs Redis 7
				require.NoError(t, err)
				for _, s := range slots {
					if slot := int(redisconn.SlotOf("lw:{k}")); s.Start > slot || s.End < slot {
						return newClient(t, &redis.Options{Addr: s.Nodes[0].Addr})
					}
				}
				return nil
			},
			only: scripts + " Renew", code: "cluster-node", is: "MOVED",
			want: "; this server is a node of a cluster: use redis.NewClusterClient",
		},
		"a single server as a cluster": {
			client: func(t *testing.T) redis.UniversalClient {
				rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{testredis.Start(t).Addr()}})
				t.Cleanup(func() { _ = rdb.Close() })
				return rdb
			},
			want: "this server is not a cluster: use redis.NewClient",
		},
		"EVALSHA is renamed": {
			client: func(t *testing.T) redis.UniversalClient {
				return of("--rename-command", "EVALSHA", "")(t, redis.Options{})
			},
			only: scripts + " Renew", code: "rights-locks",
			want: "ERR unknown command 'evalsha'; the commands EVALSHA and EVAL are needed: rename-command has removed one, or the server has no Lua",
		},
		"no right to a command": {
			client: user("~* &* +@all -evalsha"), only: scripts + " Renew", code: "rights-locks", is: "NOPERM",
			want: "; to allow it: ACL SETUSER name +evalsha",
		},
		"no right to a command of a script": {
			client: user("~* &* +@all -exists"), only: "TryLock Lock RLock", code: "rights-locks", is: "script",
			want: "; to allow it: ACL SETUSER name +exists",
		},
		"no right to the keys": {
			client: user("~x* &* +@all"), only: scripts + " Renew", code: "rights-locks", is: "NOPERM",
			want: "; to allow it: ACL SETUSER name ~lw:*",
		},
		"other data": {
			client: func(t *testing.T) redis.UniversalClient {
				rdb := testredis.Start(t).Client(t)
				require.NoError(t, rdb.RPush(t.Context(), "lw:{k}", "x").Err())
				return rdb
			},
			only: "TryLock Lock RLock",
			want: `the key "lw:{k}" of Redis holds a list that is no part of a lock of this kind; use another name or Options.Prefix`,
		},
		"other data in the queue": {
			client: func(t *testing.T) redis.UniversalClient {
				rdb := testredis.Start(t).Client(t)
				require.NoError(t, rdb.Set(t.Context(), "lw:{k}:q", "x", 0).Err())
				return rdb
			},
			only: "TryLock Lock RLock",
			want: `the key "lw:{k}:q" of Redis holds a string that is no part of a lock of this kind; use another name or Options.Prefix`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documented := func(row string) bool {
				cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
				for i, text := range strings.Split(cell, "`") {
					if i%2 == 1 && (strings.Contains(c.want, text) || strings.Contains(c.is, text)) {
						return true
					}
				}
				return false
			}
			assert.True(t, slices.ContainsFunc(strings.Split(table, "\n"), documented), "OPERATIONS.md has a row for %s", c.want)
			c.check(t)
		})
	}
}

func newClient(t *testing.T, o *redis.Options) *redis.Client {
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// check calls everything at a server that is set up wrongly, and compares the errors.
func (w *wrongSetup) check(t *testing.T) {
	s := newStore(t, w.client(t), &Options{Timeout: 2 * time.Second})
	client, err := lock.New(s, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	expect := func(call string, err error) {
		t.Helper()
		if w.only != "" && !slices.Contains(strings.Fields(w.only), call) {
			return
		}
		require.Error(t, err, call)
		assert.Contains(t, err.Error(), w.want, call)
		assert.Contains(t, err.Error(), w.is, call)
		// Some servers name the user, which is hidden.
		assert.NotContains(t, strings.ReplaceAll(err.Error(), "User (secret) has", ""), "(secret)", call)
		assert.Equal(t, 1, strings.Count(err.Error(), w.want), call)
	}
	for range 3 {
		_, err = client.Mutex("k").TryLock(ctx)
		expect("TryLock", err)
	}
	for range 2 {
		_, err = client.Mutex("k").Lock(ctx)
		expect("Lock", err)
	}
	_, err = client.RWMutex("k").RLock(ctx)
	expect("RLock", err)
	_, err = s.Inspect(ctx, "k")
	expect("Inspect", err)
	lease := driver.Lease{Request: request("k"), Token: 1}
	expect("Renew", s.Renew(ctx, []driver.Lease{lease}, make([]renewal.Outcome, 1)))
	expect("Release", s.Release(ctx, lease))
	_, _, err = s.List(ctx, "", "")
	expect("List", err)
	report, err := s.Check(ctx, nil)
	if w.code == "" {
		return
	}
	require.NoError(t, err)
	found := findingOf(t, report, w.code)
	assert.Equal(t, SeverityUnsafe, found.Severity)
	if w.code == "login" || w.code == "unreachable" {
		assert.Contains(t, found.Seen, w.want)
		assert.Len(t, report.Findings, 1, "%v", report)
	}
	if strings.Contains(w.want, "ACL SETUSER name +") {
		assert.Contains(t, found.Do, "ACL SETUSER name ~lw:* &lw:* "+w.want[strings.LastIndexByte(w.want, '+'):])
	}
}

// startTLS starts a server that speaks TLS only, and returns its address.
func startTLS(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: secret}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	srv, err := testredis.Launch("--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert"), "--tls-key-file", filepath.Join(dir, "key"), "--tls-auth-clients", "no")
	if err != nil && strings.Contains(err.Error(), "Failed finding TLS support") {
		t.Skip("this server was built without TLS")
	}
	testprocess.Check(t, err)
	t.Cleanup(srv.Close)
	return "127.0.0.1:" + port
}
