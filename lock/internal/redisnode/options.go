// Options of the go-redis clients, and the credentials of a streaming provider.

package redisnode

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasewheel/leasewheel/internal/tlsdial"
)

const (
	defaultDialTimeout = 5 * time.Second // the default of go-redis

	// FailoverAddr is the address of a client for Sentinel. Its Dialer asks Sentinel for the
	// master at each dial. The client also closes its connections when it learns of a new
	// master, but a client that was derived from it does not. An old master may serve for
	// ten seconds longer, so the derived client keeps its connections only for
	// failoverLifetime.
	FailoverAddr     = "FailoverClient"
	failoverLifetime = time.Second
)

// Derive returns the options of a Node for the server of a user's client. It does not change user.
func Derive(user *redis.Options) *redis.Options {
	o := *user

	// go-redis must not repeat a request: only the caller knows whether a late execution
	// does harm. A lane alone bounds an answer.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = -1, -1
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	o.DialTimeout = min(o.DialTimeout, dialTimeout)
	o.DialerRetries = 1
	if o.Addr == FailoverAddr {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = failoverLifetime, 0
	}

	o.PoolSize, o.PoolTimeout = 1, time.Hour // a lane has one request at a time
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 0, 0, 0, 0
	o.ReadBufferSize, o.WriteBufferSize = 4<<10, 4<<10
	o.PipelinePoolSize = -1 // pipelines use the connections of the main pool

	// go-redis must send no commands of its own and receive no push messages, and must
	// share nothing with the user's client that could refuse a request.
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.AutoPipelineOptions = nil
	o.Limiter = nil

	switch {
	case o.Dialer != nil:
	case o.TLSConfig != nil: // a TLS dial of go-redis does not end with its ctx
		o.Dialer = (&tls.Dialer{Config: o.TLSConfig}).DialContext
	default:
		o.Dialer = redis.NewDialer(&o)
	}
	if o.TLSConfig != nil {
		o.Dialer = tlsdial.Dialer(o.Dialer)
	}
	return &o
}

// clientOptions returns the options of the client of a lane, or of the client for subscriptions if l is nil. The
// functions of the user run outside of the goroutine of the call.
func (n *Node) clientOptions(l *lane) *redis.Options {
	o := n.options
	onConnect := o.OnConnect
	o.Dialer, o.OnConnect = n.dial, nil
	if l != nil {
		o.Dialer, o.DialTimeout = l.dial, 2*dialTimeout // n.dial has a bound of its own
		o.ReadTimeout, o.WriteTimeout = -2, -2          // the lane sets the deadlines
	}
	if l != nil || onConnect != nil {
		o.OnConnect = func(ctx context.Context, c *redis.Conn) error {
			if onConnect != nil {
				ctx, done := l.bind(ctx)
				defer done()
				if _, err := CallUser(ctx, n.calls, func() (any, error) { return nil, onConnect(ctx, c) }); err != nil {
					return err
				}
			}
			if l == nil {
				return nil
			}
			n.notices.links.Add(1) // the server may be another one
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.conn != nil {
				l.conn.ready = true // for requests
			}
			return nil
		}
	}
	ask := o.CredentialsProviderContext
	if provide := o.CredentialsProvider; ask == nil && provide != nil {
		ask = func(context.Context) (username, password string, err error) { //nolint:unparam // of the option
			username, password = provide()
			return username, password, nil
		}
	}
	if n.login.provider != nil {
		ask = n.login.get
	}
	if ask == nil {
		return &o
	}
	o.StreamingCredentialsProvider, o.CredentialsProvider = nil, nil
	o.CredentialsProviderContext = func(ctx context.Context) (username, password string, err error) {
		ctx, done := l.bind(ctx)
		defer done()
		login, err := CallUser(ctx, n.calls, func() (login [2]string, err error) {
			login[0], login[1], err = ask(ctx)
			return login, err
		})
		return login[0], login[1], err
	}
	return &o
}

// credentials subscribes to the credentials of a streaming provider, for all connections of a node.
// go-redis would send new credentials on each idle connection, and wait for the answer without a bound.
// Here a lane closes a connection that was made with old credentials.
type credentials struct {
	provider auth.StreamingCredentialsProvider // nil: the user has none
	changes  atomic.Uint64

	mu          sync.Mutex // guards all below
	current     auth.Credentials
	unsubscribe auth.UnsubscribeFunc
	closed      bool
}

// number returns the number of the current credentials.
func (s *credentials) number() uint64 { return s.changes.Load() }

// get returns the current credentials. It subscribes to the provider if there are none.
func (s *credentials) get(context.Context) (username, password string, err error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current == nil {
		var unsubscribe auth.UnsubscribeFunc
		if current, unsubscribe, err = s.provider.Subscribe(s); err != nil {
			return "", "", err
		}
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.unsubscribe = unsubscribe
			if s.current == nil {
				s.current = current
			}
		}
		s.mu.Unlock()
		if closed {
			_ = unsubscribe()
			return "", "", redis.ErrClosed
		}
	}
	username, password = current.BasicAuth()
	return username, password, nil
}

// OnNext implements auth.CredentialsListener.
func (s *credentials) OnNext(next auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.changes.Add(1)
	}
	s.current = next
}

// OnError implements auth.CredentialsListener. The next connection subscribes again.
func (s *credentials) OnError(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nil
}

// close makes get fail, and returns the function that ends the subscription, or nil if there is none.
func (s *credentials) close() auth.UnsubscribeFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	unsubscribe := s.unsubscribe
	s.closed, s.unsubscribe = true, nil
	return unsubscribe
}
