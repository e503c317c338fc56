// The connection to the servers, and its session.

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// link is the connection to the servers. It knows its session.
type link struct {
	conn    *zk.Conn
	events  <-chan zk.Event
	expired func(session int64)
	calls   sync.WaitGroup
	ctx     context.Context // of lookups and dials; ends with close
	cancel  context.CancelFunc
	known   map[string][]string // addresses of servers; only the goroutine that dials uses it

	mu        sync.Mutex    // guards all below
	session   int64         // 0: there is none
	granted   time.Duration // its timeout
	confirmed time.Time     // the leader has heard of the session since then
	pings     []ping        // answered since then, the latest ones in their order
	connected bool
	changed   chan struct{} // is closed when the fields above change
	open      net.Conn      // the connection that was dialed last
	closed    bool
	failure   error // of the network, since there was a session
}

var errClosed = errors.New("the connection is closed")

func dial(servers []string, timeout time.Duration, expired func(int64)) (*link, error) {
	l := &link{granted: timeout, expired: expired, known: make(map[string][]string), changed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var err error
	l.conn, l.events, err = zk.Connect(servers, timeout, zk.WithHostProvider(new(hosts)),
		zk.WithLogger(noLogger{}), zk.WithLogInfo(false), zk.WithDialer(l.dial), zk.WithEventCallback(l.event))
	return l, err
}

// lookupTimeout bounds the lookup of one name.
const lookupTimeout = 2 * time.Second

// hosts names the servers to the ZooKeeper client, which dials one after another. The provider of the client would look up all
// names once. One goroutine of the client calls it.
type hosts struct {
	servers []string
	at      int // the next of servers
	passed  int // servers since the last connection, or since the last pass over all
}

// Init implements [zk.HostProvider].
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	for _, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return err
		}
	}
	return nil
}

// Len implements [zk.HostProvider].
func (h *hosts) Len() int { return len(h.servers) }

// Next implements [zk.HostProvider]. The client pauses if a pass begins again.
func (h *hosts) Next() (server string, again bool) {
	if again = h.passed == len(h.servers); again {
		h.passed = 0
	}
	h.passed++
	server = h.servers[h.at]
	h.at = (h.at + 1) % len(h.servers)
	return server, again
}

// Connected implements [zk.HostProvider].
func (h *hosts) Connected() { h.passed = 0 }

// noLogger drops the messages of the ZooKeeper client: what matters is in the errors of the store.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// addresses looks up the addresses of a server, each time because servers get other ones. It returns them in random order,
// those of the last lookup if this one fails, and the server itself if there was none: the dial has the error.
func (l *link) addresses(server string) (all []string) {
	ctx, cancel := context.WithTimeout(l.ctx, lookupTimeout)
	defer cancel()
	host, port, _ := net.SplitHostPort(server)
	if found, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
		l.known[server] = found
	}
	for _, ip := range l.known[server] {
		all = append(all, net.JoinHostPort(ip, port))
	}
	if len(all) == 0 {
		return []string{server}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// dial dials a server, for the ZooKeeper client, at the first of its addresses that answers.
func (l *link) dial(network, server string, timeout time.Duration) (c net.Conn, err error) {
	for _, address := range l.addresses(server) {
		ctx, cancel := context.WithTimeout(l.ctx, timeout)
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		cancel()
		if err == nil {
			break
		}
		l.failed(err)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, errClosed
	}
	l.open = c
	return &observed{Conn: c, link: l, dialed: time.Now()}, nil
}

// hasSession records the answer of a server to a connection that was dialed at an instant. The
// leader has confirmed the session since. The session is 0 if the last one has expired.
func (l *link) hasSession(session int64, timeout time.Duration, dialed time.Time) {
	l.mu.Lock()
	old := l.session
	l.session, l.confirmed, l.pings = session, dialed, nil
	if session != 0 && timeout > 0 {
		l.granted, l.failure = timeout, nil
	}
	l.notify()
	l.mu.Unlock()
	if old != 0 && old != session {
		l.expired(old)
	}
}

// failed records an error of the network.
func (l *link) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// explain adds the error of the network to one that does not include it.
func (l *link) explain(err error) error {
	l.mu.Lock()
	failure := l.failure
	l.mu.Unlock()
	var late driver.NoAnswerError
	if failure == nil || !errors.As(err, &late) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", err, failure)
}

// event is called by the ZooKeeper client.
func (l *link) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		l.connected = true
	case zk.StateDisconnected, zk.StateExpired, zk.StateConnecting:
		l.connected = false
	default:
		return
	}
	l.notify()
}

// notify wakes those that wait for a change. mu is locked.
func (l *link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// current returns the session, 0 if there is none.
func (l *link) current() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// ready returns when there is a session, or when ctx ends.
func (l *link) ready(ctx context.Context) error {
	for {
		l.mu.Lock()
		ok, changed := l.connected && l.session != 0, l.changed
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close ends the session and all calls.
func (l *link) close() {
	l.conn.Close()
	l.cancel()
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.mu.Unlock()
	if open != nil {
		_ = open.Close()
	}
	for range l.events { // ends with the last goroutine of the client
		continue
	}
	l.calls.Wait()
}

// ask calls f, which makes one request, and returns its results or the cause of ctx. After the end
// of ctx f goes on, and its request may still be executed.
func ask[T any](ctx context.Context, l *link, f func(c *zk.Conn) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var zero T
		return zero, context.Cause(ctx)
	}
	return request(ctx, l, f)
}

// request is ask, and calls f even if ctx has ended.
func request[T any](ctx context.Context, l *link, f func(c *zk.Conn) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	l.calls.Go(func() {
		v, err := f(l.conn)
		answer <- result{v, err}
	})
	select {
	case r := <-answer:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
