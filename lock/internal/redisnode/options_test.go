package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/tlsdial"
)

func TestDeriveOptions(t *testing.T) {
	user := &redis.Options{
		Addr: "example.invalid:1", Username: "u", Password: "p", DB: 3, ClientName: "app", MaxRetries: 7,
		ReadTimeout: time.Minute, PoolSize: 500, MinIdleConns: 100, DialTimeout: time.Hour, DialerRetries: 9, ConnMaxLifetime: time.Hour,
		Limiter: limiter{}, ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
	}
	rdb := redis.NewClient(Derive(user))
	defer rdb.Close()
	o := rdb.Options()
	assert.Equal(t, []any{"example.invalid:1", "u", "p", 3, "app", time.Hour},
		[]any{o.Addr, o.Username, o.Password, o.DB, o.ClientName, o.ConnMaxLifetime}, "copied")
	assert.Equal(t, 0, o.MaxRetries, "no retries")
	assert.True(t, o.ContextTimeoutEnabled)
	assert.Zero(t, o.ReadTimeout, "no timeout")
	assert.Zero(t, o.WriteTimeout, "no timeout")
	assert.Equal(t, 10*time.Second, o.DialTimeout)
	assert.Equal(t, 1, o.DialerRetries)
	assert.Equal(t, -1, o.PipelinePoolSize, "no second pool")
	assert.Zero(t, o.MinIdleConns)
	assert.True(t, o.DisableIdentity)
	assert.Nil(t, o.Limiter)
	assert.Nil(t, o.ClientSideCacheConfig)
	assert.Equal(t, 7, user.MaxRetries, "the options of the user are unchanged")
}

// Such a server answers a TLS handshake with silence. The first failed connection tells all calls, and later dials do not
// hide it.
func TestAServerWithoutTLSIsNamed(t *testing.T) {
	server := shared.Server(t)
	silent := func(ctx context.Context, _, _ string) (net.Conn, error) { // that of go-redis does not end with its ctx
		<-ctx.Done()
		return nil, ctx.Err()
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: &tls.Config{}, Dialer: silent})
	defer rdb.Close()
	c := newClient(t, rdb, Options{})
	calls := make(chan error)
	for range 3 {
		go func() { calls <- runEcho(t.Context(), c, "key") }()
	}
	for range 3 {
		var noTLS tlsdial.NoTLSError
		require.ErrorAs(t, <-calls, &noTLS)
		assert.Equal(t, server.Addr(), noTLS.Addr)
	}
}

// limiter refuses every request.
type limiter struct{}

func (limiter) Allow() error { return errors.New("limit exceeded") }

func (limiter) ReportResult(error) {}
