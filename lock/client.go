package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// Client makes locks on one store and keeps those that are held alive. One client
// serves a whole process: it renews the leases of all its locks together. Its
// methods are safe for concurrent use.
type Client struct {
	*core
	terms Terms
	wrong error // what is wrong with terms: the answer to every Lock
}

// core is what a client shares with those that With derives from it.
type core struct {
	store   Store
	waiter  Waiter       // the store, if it can wait
	engine  *wheel.Wheel // nil if the user brought one
	dog     *renewal.Watchdog[Lease]
	backoff func(int) time.Duration
	logger  *slog.Logger
	cleaner cleaner

	id     string        // random: makes the client's owners unique
	serial atomic.Uint64 // of acquisitions

	lines     lines                   // of the calls of Lock
	handovers int                     // at most, in a row, within the client
	ctx       context.Context         // ends when Close begins
	end       context.CancelCauseFunc // of ctx

	mu      sync.Mutex    // guards all below
	closed  bool          // Close has begun
	running int           // acquisitions and releases that are under way
	quiet   chan struct{} // closed when closed and none is running
}

// New returns a client of the given store. The error names the argument or the
// field of Options that is wrong; then the store is left open. No IO is done. The client must be closed; with
// it its store is closed, if that is an io.Closer: two clients need two stores, and
// With makes another kind of lock on the same.
func New(store Store, o *Options) (*Client, error) {
	if isNil(store) {
		return nil, errors.New("lock: the store is nil")
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &core{
		store:   store,
		backoff: opts.Backoff,
		logger:  opts.Logger,
		id:      rand.Text(),
		quiet:   make(chan struct{}),
	}
	c.waiter, _ = store.(Waiter)
	c.lines.init(opts.MaxWaiters)
	c.handovers = opts.LocalHandovers
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.cleaner.init(store, opts.Logger)

	engine := opts.Scheduler
	if engine == nil {
		c.engine, err = wheel.New(&wheel.Options{Tick: tick(opts.TTL), Logger: opts.Logger})
		if err != nil {
			return nil, err
		}
		engine = c.engine
	}
	if c.dog, err = renewal.New(engine, renewal.Renewer[Lease](store), &opts.Renewal); err != nil {
		return nil, err
	}
	if err := c.checkTTL(opts.Terms); err != nil {
		return nil, err
	}
	return &Client{core: c, terms: opts.Terms}, nil
}

// checkTTL refuses terms whose leases the watchdog has too little time for: to renew
// them, or only to tell of their end.
func (c *core) checkTTL(t Terms) error {
	if t.Fixed {
		if c.dog.Life(t.TTL) <= 0 {
			return fmt.Errorf("%w: a TTL of %v is too short for the margin", ErrBadTTL, t.TTL)
		}
		return nil
	}
	if err := c.dog.CheckTTL(t.TTL); err != nil {
		return fmt.Errorf("%w: %w", ErrBadTTL, err)
	}
	return nil
}

// With returns a client that shares everything with this one but the terms of the
// locks that it makes; zero fields mean the defaults of package lock, not those of
// this client. Terms that are out of range are the error of their Lock. Closing
// either closes both.
func (c *Client) With(t Terms) *Client {
	if c == nil || c.core == nil {
		return c
	}
	t, err := t.withDefaults("Terms.")
	if err == nil {
		err = c.checkTTL(t)
	}
	return &Client{core: c.core, terms: t, wrong: err}
}

// Stats is a snapshot of a client.
type Stats struct {
	Renewal  renewal.Stats // of the watchdog: what is held, renewed and lost
	Waiting  int           // calls of Lock that do not have their lock yet
	Cleaning int           // leases that are being released in the background: of acquisitions given up, of Unlocks not confirmed
}

// Stats returns a snapshot. It is safe for concurrent use and after Close.
func (c *Client) Stats() Stats {
	if c == nil || c.core == nil {
		return Stats{}
	}
	return Stats{
		Renewal:  c.dog.Stats(),
		Waiting:  c.lines.len(),
		Cleaning: c.cleaner.len(),
	}
}

// String and GoString keep what the client's owners begin with, a secret, out of
// messages.
func (c *Client) String() string { return "lock client" }

// GoString is String for %#v.
func (c *Client) GoString() string { return "lock.Client{}" }

// Close ends the client: Lock and TryLock answer ErrClosed, those that wait too;
// every holder is told, its Err being ErrClosed; then all locks are released,
// many at a time, and the engine, if it is the client's own, and the store are
// closed. All this is done as far as it gets within ctx; the error tells what was
// not. What could not be released ends with its TTL. Hooks, and functions that were
// told of the end of a lock, are not waited for. A second Close returns ErrClosed. A
// nil ctx is an error, and then nothing is closed.
func (c *Client) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case c == nil || c.core == nil:
		return errZeroClient
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	if c.running == 0 {
		close(c.quiet)
	}
	c.mu.Unlock()
	c.end(ErrClosed)

	// A renewal that hangs must not keep the locks from being released, so it is
	// waited for last.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	held, _ := c.dog.Close(ended) // the second call tells
	errRunning := await(ctx, c.quiet, "a call of the store")
	orphans, errCleaner := c.cleaner.close(ctx)
	errRelease := releaseAll(ctx, c.store, append(held, orphans...))
	_, errDog := c.dog.Close(ctx)
	if c.engine != nil {
		c.engine.Close()
	}
	var errStore error
	if closer, ok := c.store.(io.Closer); ok {
		errStore = closer.Close()
	}
	return errors.Join(errRunning, errCleaner, errRelease, errDog, errStore)
}

// await waits for something to be done, at most until ctx ends.
func await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done: // also if ctx has ended
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lock: Close: %s is still under way: %w", what, context.Cause(ctx))
	}
}

// begin registers an operation, unless the client is closed; done ends it.
func (c *core) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running++
	return nil
}

func (c *core) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.closed && c.running == 0 {
		close(c.quiet)
	}
}

// whileOpen returns a copy of ctx that also ends when the client is closed. The
// function must be called to free what it takes.
func (c *core) whileOpen(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	off := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		off()
		cancel(nil)
	}
}

// owner returns the name of one acquisition. It is never used again.
func (c *core) owner() string {
	return c.id + ":" + strconv.FormatUint(c.serial.Add(1), 36)
}
