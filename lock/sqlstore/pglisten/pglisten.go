// Package pglisten receives the notifications of PostgreSQL for the waiters of a sqlstore.Store,
// so that a lock that is handed over arrives after one round trip instead of at the next poll:
//
//	listener, err := pglisten.New("postgres://…", nil)
//	…
//	defer listener.Close()
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL(), &sqlstore.Options{Listener: listener})
//
// A Listener has one connection of its own, to the database of the store. LISTEN belongs to a session, so the connection
// must not lead through PgBouncer in transaction mode; that of the store may. A Listener proves that notifications
// arrive: after it has connected, a second connection sends one and ends. Until it arrives, the waiters poll.
package pglisten

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

const (
	pingEvery = 5 * time.Second // a connection that is silent for so long is tested
	timeout   = 3 * time.Second // of a ping, and of everything until the server listens
	minPause  = 100 * time.Millisecond
	maxPause  = 5 * time.Second
	deafPause = time.Minute // between two tries to receive what the Listener has sent to itself
)

var errDeaf = errors.New("a notification to itself has not arrived: the DSN must not lead through a pooler in transaction mode")

// Options configure a Listener. A nil *Options means the defaults.
type Options struct {
	// Logger logs when the connection is lost and when it is back. Default slog.Default(). Nothing
	// waits for it.
	Logger *slog.Logger
}

// Listener is a sqlstore.Listener. Its methods are safe for concurrent use. It connects in the
// background, and connects again after a failure; meanwhile the waiters poll.
type Listener struct {
	config  *pgx.ConnConfig
	channel string // of this Listener only, so that a notification wakes one process
	logger  *slog.Logger
	cancel  context.CancelFunc
	done    chan struct{} // closed after the goroutine has ended

	mu          sync.Mutex // guards all below
	listening   bool       // the server sends what is notified on the channel
	subscribers map[string]map[int]func()
	next        int // the id of the next subscriber
}

var _ sqlstore.Listener = (*Listener)(nil)

// New returns a Listener for a database, and starts to connect. It returns an error if dsn, a URL
// or a list of keywords and values, is malformed.
func New(dsn string, options *Options) (*Listener, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("pglisten: bad DSN: %w", err) // does not show the password
	}
	l := &Listener{config: config, channel: "leasewheel_" + strings.ToLower(rand.Text()), done: make(chan struct{}), subscribers: map[string]map[int]func(){}}
	if options == nil {
		options = &Options{}
	}
	l.logger = logging.New(options.Logger)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
	return l, nil
}

// Channel implements sqlstore.Listener.
func (l *Listener) Channel() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.listening {
		return ""
	}
	return l.channel
}

// Subscribe implements sqlstore.Listener.
func (l *Listener) Subscribe(text string, wake func()) (unsubscribe func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	if l.subscribers[text] == nil {
		l.subscribers[text] = map[int]func(){}
	}
	l.subscribers[text][id] = wake
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers[text], id)
		if len(l.subscribers[text]) == 0 {
			delete(l.subscribers, text)
		}
	}
}

// Close closes the connection. The waiters poll from then on. It is idempotent and returns nil. It
// waits for the Logger for a second at most.
func (l *Listener) Close() error {
	l.cancel()
	<-l.done
	logging.Flush(context.Background(), l.logger)
	return nil
}

// run connects and receives until ctx ends.
func (l *Listener) run(ctx context.Context) {
	defer close(l.done)
	failed := false
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := l.session(ctx, func() {
			if failed {
				l.logger.Info("pglisten: connected again")
			}
			failed, pause = false, minPause
		})
		if ctx.Err() != nil {
			return
		}
		if !failed {
			l.logger.Warn("pglisten: no notifications; waiters poll", "error", err)
			failed = true
		}
		if errors.Is(err, errDeaf) {
			pause = deafPause
		}
		if basic.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// session connects, calls connected, and passes notifications on until the connection fails.
func (l *Listener) session(ctx context.Context, connected func()) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ending)
	}()
	l.setListening(true)
	defer l.setListening(false)
	connected()
	for {
		n, err := receive(ctx, conn)
		if err != nil {
			return err
		}
		if n != "" {
			l.deliver(n)
		}
	}
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, l.config.Copy())
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "LISTEN "+l.channel)
	if err == nil {
		err = l.prove(ctx, conn)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// prove sends a notification by another connection, because a pooler may pass one to the connection that sends it, and
// waits until it arrives.
func (l *Listener) prove(ctx context.Context, conn *pgx.Conn) error {
	sender, err := pgx.ConnectConfig(ctx, l.config.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close(ctx) }()
	if _, err := sender.Exec(ctx, "NOTIFY "+l.channel+", 'proof'"); err != nil {
		return err
	}
	_, err = conn.WaitForNotification(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errDeaf
	}
	return err
}

// receive returns the text of the next notification, or "" if the server has answered a ping.
func receive(ctx context.Context, conn *pgx.Conn) (string, error) {
	quiet, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	if err == nil {
		return n.Payload, nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || conn.IsClosed() {
		return "", err
	}
	ping, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return "", conn.Ping(ping)
}

// setListening changes the channel, and wakes all waiters, because messages may have been missed.
func (l *Listener) setListening(listening bool) {
	l.mu.Lock()
	l.listening = listening
	texts := slices.Collect(maps.Keys(l.subscribers))
	l.mu.Unlock()
	for _, text := range texts {
		l.deliver(text)
	}
}

// deliver wakes the waiters for a text.
func (l *Listener) deliver(text string) {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.subscribers[text]))
	l.mu.Unlock()
	for _, wake := range all {
		wake()
	}
}
