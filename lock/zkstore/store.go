// The Store: its options, its errors and its Close.

package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Options configures a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Root is the path of the node below which all locks are, by default "/leasewheel". All
	// processes that share locks must have the same one. Missing nodes of it are created.
	Root string

	// SessionTimeout is the session timeout that the store asks for, by default 40 s. The server
	// may grant another one, between its minSessionTimeout and its maxSessionTimeout. The longest
	// TTL is half of what it grants.
	SessionTimeout time.Duration

	// Digest is a user and a password, of the form user:password, for the scheme "digest". Only this
	// user can then read and change the nodes that the store creates. All processes that share locks
	// must have the same one. By default there is no user, and everybody may do everything.
	Digest string
}

const (
	defaultRoot           = "/leasewheel"
	maxRootLen            = 256
	defaultSessionTimeout = 40 * time.Second
	closeTimeout          = 3 * time.Second
)

// Store keeps locks in ZooKeeper. Its methods are safe for concurrent use. The zero Store is not
// usable: use New.
type Store struct {
	driver.Base

	servers []string
	root    string
	timeout time.Duration // of sessions, that the store asks for
	digest  string        // see Options
	acl     []zk.ACL      // of nodes that the store creates
	calls   *storekit.Calls
	sweeper sync.WaitGroup // the goroutine that removes leases that have ended
	wake    chan struct{}  // signals that there is an earlier end
	closing sync.Once      // starts shutdown
	closed  chan struct{}  // is closed when everything has ended
	bound   time.Duration  // of a call, apart from Wait; 0 means maxRequest and the time of link.lasts
	numbers int            // see the constant
	opening chan struct{}  // holds an element while a client is opened, and after Close

	mu      sync.Mutex           // guards all below
	clients []*client            // at least one
	records map[leaseKey]*record // of this store, until they are released or their removal begins
	paths   map[string]*record   // by path: the records, and the nodes that are being removed
	givenUp map[string]time.Time // owners that get nothing any more, and until when

	creations map[leaseKey]*creation // those under way or without an answer
}

var _ driver.Store = (*Store)(nil)

// New connects to the servers, each of the form host:port, and returns a store when the first
// session is there and the root node exists. If ctx ends before, New returns an error. The Store
// owns its connections, which Close ends. The error names the bad argument or field of Options.
func New(ctx context.Context, servers []string, o *Options) (*Store, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	user, password, _ := strings.Cut(opts.Digest, ":")
	opts.Root, opts.SessionTimeout = cmp.Or(opts.Root, defaultRoot), cmp.Or(opts.SessionTimeout, defaultSessionTimeout)
	switch {
	case len(servers) == 0:
		return nil, errors.New("zkstore: there are no servers")
	case slices.ContainsFunc(servers, isNoServer):
		return nil, fmt.Errorf("zkstore: servers must be of the form host:port, got %q; a path belongs into Options.Root", servers)
	case !isRoot(opts.Root):
		return nil, fmt.Errorf("zkstore: Options.Root must be an absolute path of at most %d letters, digits, '.', '_', '-' and '/', got %q", maxRootLen, opts.Root)
	case opts.Digest != "" && (user == "" || password == ""):
		return nil, errors.New("zkstore: Options.Digest must be of the form user:password")
	case opts.SessionTimeout < time.Second || opts.SessionTimeout > 24*time.Hour:
		return nil, fmt.Errorf("zkstore: Options.SessionTimeout must be 1 s to 24 h, got %v", opts.SessionTimeout)
	}
	s := &Store{
		servers: slices.Clone(servers),
		root:    opts.Root,
		numbers: numbers,
		timeout: opts.SessionTimeout,
		digest:  opts.Digest,
		acl:     zk.WorldACL(zk.PermAll),
		calls:   storekit.NewCalls(),
		wake:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
		opening: make(chan struct{}, 1),
		records: make(map[leaseKey]*record),
		paths:   make(map[string]*record),
		givenUp: make(map[string]time.Time),

		creations: make(map[leaseKey]*creation),
	}
	if s.digest != "" {
		s.acl = zk.AuthACL(zk.PermAll)
	}
	c, err := s.newClient()
	if err != nil {
		s.calls.End()
		return nil, fmt.Errorf("zkstore: %w", err)
	}
	s.clients = []*client{c}
	s.sweeper.Go(s.sweep)
	for err = zk.ErrConnectionClosed; errors.Is(err, zk.ErrConnectionClosed) && ctx.Err() == nil; {
		if err = c.link.ready(ctx); err == nil {
			err = c.login(ctx)
		}
		if err == nil {
			err = c.makePath(ctx, s.root)
		}
	}
	if err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("zkstore: connect to %s: %w", strings.Join(servers, ","), c.link.explain(err))
	}
	return s, nil
}

// isNoServer reports whether an address is malformed, such as the host:port/path of clients in Java.
func isNoServer(address string) bool { return address == "" || strings.ContainsAny(address, "/, ") }

var rootPath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

// isRoot reports whether a path may be the root.
func isRoot(path string) bool {
	names := strings.Split(path, "/")
	return len(path) <= maxRootLen && rootPath.MatchString(path) && !slices.Contains(names, ".") && !slices.Contains(names, "..")
}

// Describe implements [driver.Store]. The longest TTL is half of the shortest session timeout
// that the servers have granted.
func (s *Store) Describe() driver.Description {
	s.mu.Lock()
	timeout := s.clients[0].link.timeout()
	for _, c := range s.clients[1:] {
		timeout = min(timeout, c.link.timeout())
	}
	s.mu.Unlock()
	return driver.Description{
		Waits: true, Inspects: true, Lists: true, SetsMetadata: true,
		Yields:    driver.ModesOf(driver.Exclusive, driver.Read, driver.Write),
		TTL:       driver.TTLLimits{Max: timeout / 2, Shared: true, Slack: timeout},
		Addresses: s.servers,
	}
}

// call runs f within the time that the servers need to answer.
func (s *Store) call(ctx context.Context, verb string, f func(ctx context.Context) error) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.failed(ctx, verb, f(ctx))
}

// begin begins a call that the servers have enough time to answer; see storekit.Calls.Begin.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	bound := s.bound
	if bound == 0 {
		bound = maxRequest + s.first().link.timeout()/told
	}
	return s.calls.Begin(ctx, bound)
}

// failed returns the error of a call: the cause of ctx if the caller or Close has ended it. Answers about the lock are
// returned as they are.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	switch driver.VerdictOf(err) {
	case driver.Done, driver.Taken, driver.NotHeld:
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		var late driver.NoAnswerError
		if !errors.As(cause, &late) {
			return cause
		}
		err = late
	}
	return fmt.Errorf("zkstore: %s: %w", what, s.first().link.explain(err))
}

// check refuses a request that the store cannot serve, before any IO.
func (s *Store) check(r driver.Request) error {
	if _, ok := letters[r.Mode]; !ok {
		return fmt.Errorf("zkstore: %v: %w", r.Mode, errors.ErrUnsupported)
	}
	if err := s.Describe().TTL.Check(r.TTL); err != nil {
		return fmt.Errorf("zkstore: %w", err)
	}
	return nil
}

// Close ends all calls that are under way, and the sessions: everything that the store still holds
// becomes free. If the server does not answer, the locks end with their sessions, after their timeout.
// Close returns after about 3 s at most, or 6 s if a call is still under way because the
// function that it got has not returned. Close returns an error then.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*closeTimeout, errSlowClose)
	defer cancel()
	return s.Shutdown(ctx)
}

var errSlowClose = fmt.Errorf("zkstore: close: not finished within %v", 2*closeTimeout)

// Shutdown is Close, and returns the cause of ctx if that ends earlier. The Store then closes in the
// background, within the same time.
func (s *Store) Shutdown(ctx context.Context) error {
	s.closing.Do(func() { go s.shutdown() })
	return basic.Await(ctx, s.closed)
}

// shutdown ends the sessions even if a call does not return.
func (s *Store) shutdown() {
	ended := s.calls.End()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
	}
	s.sweeper.Wait()
	s.opening <- struct{}{} // no client is opened from now on
	s.mu.Lock()
	clients := s.clients
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, c := range clients {
		closing.Go(c.link.close)
	}
	closing.Wait()
	<-ended
	close(s.closed)
}
