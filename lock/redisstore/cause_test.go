package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestTheCauseOfALossOnAServer injects each cause that a server can have. The story names it,
// and the log has it.
func TestTheCauseOfALossOnAServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inject func(t *testing.T, srv *testredis.Server, s *Store, key string)
		want   renewal.Cause
		tells  renewal.EventKind
	}{
		"the key is deleted": {func(t *testing.T, srv *testredis.Server, s *Store, key string) {
			require.NoError(t, srv.Client(t).Del(t.Context(), s.lockKey(key)).Err())
		}, renewal.CauseKeyMissing, renewal.EventDenied},
		"all keys are deleted": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())
		}, renewal.CauseKeyMissing, renewal.EventDenied},
		"another owner has it": {func(t *testing.T, srv *testredis.Server, s *Store, key string) {
			rdb := srv.Client(t)
			require.NoError(t, rdb.Del(t.Context(), s.lockKey(key)).Err())
			acquire(t, newStore(t, rdb, &Options{Prefix: s.prefix}), request(key))
		}, renewal.CauseTakenOver, renewal.EventDenied},
		"the server restarts without data": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			srv.Kill()
			require.NoError(t, srv.Restart())
		}, renewal.CauseFailover, renewal.EventServerChanged},
		"the server is down": {func(_ *testing.T, srv *testredis.Server, _ *Store, _ string) {
			srv.Kill()
		}, renewal.CauseNetwork, renewal.EventUnreachable},
		"the server hangs": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			require.NoError(t, srv.Stop())
			t.Cleanup(func() { _ = srv.Cont() })
		}, renewal.CauseServerSlow, renewal.EventConnected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testredis.Start(t)
			s := newStore(t, srv.Client(t), nil)
			client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 5 * time.Second}})
			require.NoError(t, err)
			defer client.Close(t.Context())
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			for client.Stats().Renewal.Renewed == 0 { // the store has a connection for renewals
				time.Sleep(10 * time.Millisecond)
			}
			c.inject(t, srv, s, "k")
			<-held.Done()
			var lost *renewal.LostError
			require.ErrorAs(t, held.Err(), &lost)
			t.Logf("%v\n%v", lost.Cause(), lost.Story())
			assert.Equal(t, c.want, lost.Cause())
			assert.Contains(t, lost.Story().String(), c.tells.String())
		})
	}
}
