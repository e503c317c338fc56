package redisstore

import (
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// A batch whose user may not access one of the keys renews and releases the other leases.
func TestRevokedRightsToAKeyAffectOnlyItsLease(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	admin := srv.Client(t)
	if !hasUsers(t, admin) {
		t.Skip("this server has no users")
	}
	allow := func(keys ...any) {
		rule := append([]any{"acl", "setuser", "limited", "reset", "on", ">pw"}, keys...)
		rule = append(rule, "&*", "+@all")
		require.NoError(t, admin.Do(t.Context(), testredis.ChannelRules(rule...)...).Err())
	}
	allow("~*")
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "limited", Password: "pw", DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newStore(t, rdb, &Options{Prefix: "p:"})
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Read} {
		allow("~*")
		var batch []driver.Lease
		for range rediskit.LeasesPerScript + 5 {
			r := request("a" + rand.Text())
			if len(batch) == 3 {
				r = request("b")
			}
			r.Mode, r.Attrs = mode, &driver.Attrs{}
			batch = append(batch, acquire(t, s, r))
		}
		allow("~p:{a*")
		want := make([]renewal.Outcome, len(batch))
		for i := range want {
			want[i] = renewal.Renewed
		}
		want[3] = renewal.Unknown
		out := make([]renewal.Outcome, len(batch))
		require.ErrorContains(t, s.Renew(t.Context(), batch, out), "NOPERM")
		assert.Equal(t, want, out, "%v", mode)
		allow("~*")
		want[3] = renewal.Renewed
		assert.Equal(t, want, renew(t, s, batch...))

		allow("~p:{a*")
		errs := make([]error, len(batch))
		require.NoError(t, s.ReleaseAll(t.Context(), batch, errs))
		for i, err := range errs {
			if i == 3 {
				require.ErrorContains(t, err, "NOPERM")
			} else {
				require.NoError(t, err)
			}
		}
		allow("~*")
		require.NoError(t, s.Release(t.Context(), batch[3]))
	}
}

// A server with snapshots that cannot write one refuses all writes. Holders learn of the loss
// after two renewals. No other client gets a lock before that.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "save", "3600 1").Err())
	l := newStack(t, rdb, stackOptions{ttl: 3 * time.Second})
	dir := rdb.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NoError(t, os.RemoveAll(dir))
	refused := func() bool {
		_ = rdb.BgSave(t.Context()).Err()
		return redis.HasErrorPrefix(rdb.Set(t.Context(), "x", "y", time.Minute).Err(), "MISCONF")
	}
	require.Eventually(t, refused, 20*time.Second, 50*time.Millisecond)
	for _, h := range l.held {
		select {
		case <-h.Done():
		case <-time.After(20 * time.Second):
			require.Fail(t, "no loss is reported")
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		assert.Equal(t, renewal.ReasonFailed, lost.Reason)
		assert.ErrorContains(t, h.Err(), "MISCONF")
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", "no").Err())
	h, err := l.client.Mutex(l.held[0].Key()).Lock(t.Context())
	require.NoError(t, err, "with this setting the server accepts writes")
	require.NoError(t, h.Unlock(t.Context()))
}

// A hosted server may forget a script between two calls of a pipeline.
func TestAServerMayForgetScriptsAtAnyTime(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, &Options{Prefix: rand.Text() + ":", Instrument: new(testredis.Hosted).Attach})
	const n = 3 * rediskit.LeasesPerScript
	leases, want := acquireAll(t, s, "k", n), make([]renewal.Outcome, n)
	for i := range want {
		want[i] = renewal.Renewed
	}
	assert.Equal(t, want, renew(t, s, leases...))
	errs := make([]error, n)
	require.NoError(t, s.ReleaseAll(t.Context(), leases, errs))
	assert.Equal(t, make([]error, n), errs)
}

// A proxy may refuse a script whose keys have several slots. Each lease then has a script of its own.
func TestAServerThatRefusesKeysOfSeveralSlots(t *testing.T) {
	t.Parallel()
	const n = 2 * rediskit.LeasesPerScript
	for _, refusal := range []string{"CROSSSLOT Keys in request don't hash to the same slot", "ERR keys must hash to the same server"} {
		w := &testredis.Wire{Answer: func(command []string) string {
			switch {
			case len(command) < 3:
				return "+OK\r\n"
			case command[2] == "4": // a release
				return ":1\r\n"
			case command[2] != "1": // the number of keys of one lease
				return "-" + refusal + "\r\n"
			}
			return "*0\r\n"
		}}
		s := newStore(t, w.Client(t, redis.Options{}), nil)
		batch, want := make([]driver.Lease, n), make([]renewal.Outcome, n)
		for i := range batch {
			batch[i], want[i] = driver.Lease{Request: request(fmt.Sprint("k", i)), Token: 17}, renewal.Renewed
		}
		assert.Equal(t, want, renew(t, s, batch...))
		assert.EqualValues(t, 2+n, w.Evals.Load(), "two scripts, and then one for each lease")
		assert.Equal(t, want, renew(t, s, batch...))
		assert.EqualValues(t, 2+2*n, w.Evals.Load(), "one for each lease from now on")
		errs := make([]error, n)
		require.NoError(t, s.ReleaseAll(t.Context(), batch, errs))
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
}
