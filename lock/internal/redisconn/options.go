package redisconn

import (
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout = 5 * time.Second // the default of go-redis

	batchConns  = 4        // connections to a node that carry batches
	batchBuffer = 32 << 10 // bytes of a connection's buffer; holds 200 renewals

	// A client for Sentinel has the address failoverAddr. Its Dialer asks Sentinel for the
	// master at each dial. The client also closes its connections when it learns of a new
	// master, but a client that was derived from it does not. An old master may serve for
	// ten seconds longer, so the derived client keeps its connections only for
	// failoverLifetime.
	failoverAddr     = "FailoverClient"
	failoverLifetime = time.Second
)

// derive returns the options for the package's own clients.
func derive(user *redis.Options) *redis.Options {
	o := *user

	// go-redis must not repeat a request: only the caller knows whether a late execution
	// does harm. The ctx alone bounds an answer.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = -1, -1
	if o.DialTimeout <= 0 {
		o.DialTimeout = dialTimeout
	}
	o.DialTimeout = min(o.DialTimeout, connectTimeout)
	o.DialerRetries = 1
	if o.Addr == failoverAddr {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = failoverLifetime, 0
	}

	// Batches have connections of their own, so that a stalled call of Run does not delay
	// them. They are pipelines; the other requests on these connections are rare.
	o.PoolSize, o.PoolTimeout = batchConns, 0
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 0, 0, 0, 0
	o.ReadBufferSize, o.WriteBufferSize = 4<<10, 4<<10
	o.PipelinePoolSize = batchConns
	o.PipelineReadBufferSize, o.PipelineWriteBufferSize = batchBuffer, batchBuffer

	// go-redis must send no commands of its own and receive no push messages, and must
	// share nothing with the user's client that could refuse a request.
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.AutoPipelineOptions = nil
	o.Limiter = nil

	if o.Dialer == nil {
		o.Dialer = newDialer(&o)
	}
	return &o
}

// newDialer returns the default Dialer of go-redis. For TLS it returns another one, because
// a TLS dial of go-redis does not end with its ctx.
func newDialer(o *redis.Options) dialFunc {
	if o.TLSConfig == nil {
		return redis.NewDialer(o)
	}
	return (&tls.Dialer{Config: o.TLSConfig}).DialContext
}
