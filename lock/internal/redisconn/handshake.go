package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

var (
	errNoConn        = errors.New("the Dialer of redis.Options returned neither a connection nor an error")
	errHandshakeDone = errors.New("handshake complete")
)

// handshaker opens connections to one node: it dials, and does the handshake.
type handshaker struct {
	options       redis.Options // of the user: the Dialer, credentials, OnConnect
	network, addr string
	trust         *trust
	credentials   credentials
	notices       notices
}

func newHandshaker(o redis.Options, t *trust) *handshaker {
	h := &handshaker{options: o, network: o.Network, addr: o.Addr, trust: t, credentials: credentials{trust: t}}
	if h.network == "" {
		h.network = "tcp"
	}
	return h
}

// connect dials and does the handshake: HELLO or AUTH, the database, the client name and
// OnConnect. dialed is the number of the latest request before the dial.
func (h *handshaker) connect(ctx context.Context, dialed uint64) (*link, error) {
	conn, err := h.dial(ctx)
	if err != nil {
		if ctx.Err() == nil || !errors.Is(ctx.Err(), context.Canceled) { // not by close
			h.notices.tell(Unreachable, 0, err.Error())
		}
		return nil, err
	}
	opened := time.Now()
	h.notices.tell(Connected, 0, "")
	l := &link{trust: h.trust, maxLifetime: h.options.ConnMaxLifetime, maxIdleTime: h.options.ConnMaxIdleTime, dialed: dialed}
	l.lastRead.Store(dialed)
	if conn.SetDeadline(time.Time{}) != nil {
		l.noDeadlines = true
		conn = newTimedConn(conn)
	}
	l.Conn = limitReplies(conn)

	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = h.handshake(ctx, l)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = l.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.madeAt, l.ready = time.Now(), true
	h.notices.linked.Store(true)
	h.notices.tell(Ready, l.madeAt.Sub(opened), "")
	return l, nil
}

func (h *handshaker) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.options.DialTimeout)
	defer cancel()
	conn, err := h.options.Dialer(ctx, h.network, h.addr)
	if err == nil && conn == nil {
		err = errNoConn
	}
	return conn, err
}

// handshake does what go-redis does with a new connection. It uses a temporary go-redis
// client, which has no other connection.
func (h *handshaker) handshake(ctx context.Context, l *link) error {
	o := h.options
	o.PoolSize, o.PipelinePoolSize = 1, -1
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nopCloseLink{l}, nil }
	o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if onConnect := h.options.OnConnect; onConnect != nil {
			if err := onConnect(ctx, conn); err != nil {
				return err
			}
		}
		return errHandshakeDone // the error keeps the client from sending the PING below
	}
	if provider := o.StreamingCredentialsProvider; provider != nil {
		o.StreamingCredentialsProvider = nil
		o.CredentialsProviderContext = func(context.Context) (username, password string, err error) {
			return h.credentials.get(provider)
		}
	}
	rdb := redis.NewClient(&o)
	defer func() { _ = rdb.Close() }() // does not close l
	err := rdb.Process(ctx, redis.NewCmd(ctx, "ping"))
	if errors.Is(err, errHandshakeDone) {
		return nil
	}
	return err
}

// credentials subscribes to the credentials of a streaming provider. go-redis would send
// new credentials on each idle connection. Here the connections that were made with old
// credentials are not used again.
type credentials struct {
	trust *trust

	mu          sync.Mutex // guards all below
	current     auth.Credentials
	unsubscribe auth.UnsubscribeFunc
	closed      bool
}

// get returns the current credentials. It subscribes to the provider if there are none.
func (s *credentials) get(provider auth.StreamingCredentialsProvider) (username, password string, err error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current == nil {
		var unsubscribe auth.UnsubscribeFunc
		if current, unsubscribe, err = provider.Subscribe(s); err != nil {
			return "", "", err
		}
		if !s.subscribed(current, unsubscribe) {
			_ = unsubscribe()
			return "", "", redis.ErrClosed
		}
	}
	username, password = current.BasicAuth()
	return username, password, nil
}

// subscribed stores a new subscription. It reports false after close.
func (s *credentials) subscribed(current auth.Credentials, unsubscribe auth.UnsubscribeFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.current == nil {
		s.current = current
	}
	s.unsubscribe = unsubscribe
	return true
}

// OnNext implements auth.CredentialsListener.
func (s *credentials) OnNext(next auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.trust.rejectDialed()
	}
	s.current = next
}

// OnError implements auth.CredentialsListener. The next connection subscribes again.
func (s *credentials) OnError(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nil
}

// close ends the subscription.
func (s *credentials) close() {
	s.mu.Lock()
	s.closed = true
	unsubscribe := s.unsubscribe
	s.unsubscribe = nil
	s.mu.Unlock()
	if unsubscribe != nil {
		_ = unsubscribe()
	}
}
