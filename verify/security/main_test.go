package security

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var (
	report = simreport.NewReport("security")
	shared testredis.Shared // for tests that do not change its settings
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(report.Around(m)))
}

// newStore returns a store with a unique prefix below "lw:".
func newStore(t testing.TB, rdb *redis.Client) (s *redisstore.Store, prefix string) {
	t.Helper()
	prefix = "lw:" + rand.Text() + ":"
	return storeWith(t, rdb, prefix), prefix
}

func storeWith(t testing.TB, rdb *redis.Client, prefix string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(rdb, &redisstore.Options{Prefix: prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// newClient returns a client of the store. Closing the client closes the store.
func newClient(t testing.TB, s driver.Store, o *lock.Options) *lock.Client {
	t.Helper()
	c, err := lock.New(s, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

const ttl30 = 30 * time.Second

// request returns a request for a key by a new owner.
func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: rand.Text() + ":1", TTL: ttl30}
}

func outcomes(n int) []renewal.Outcome { return make([]renewal.Outcome, n) }

func waitingCount(t *testing.T, s *redisstore.Store, key string) int {
	info, err := s.Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Waiting
}
