// The client, and what its Close does.

package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// Client makes locks on one store and renews the locks that are held. One client serves a whole
// process. Its methods are safe for concurrent use.
type Client struct {
	*core
	terms   Terms
	wrong   error // the answer to every Lock if terms are bad
	patient bool  // long waits are normal
}

// ok reports whether New or With has made the client.
func (c *Client) ok() bool { return c != nil && c.core != nil }

// core is shared by a client and all clients that With derives from it.
type core struct {
	store  driver.Store
	can    driver.Description // the description of the store when the client was made
	engine *wheel.Wheel       // nil if the user brought one

	engineTTL time.Duration // Options.TTL, from which the tick of the client's own engine follows

	watchdog *renewal.Watchdog[driver.Lease]
	backoff  func(int) time.Duration
	logger   *slog.Logger
	releaser *storekit.Releaser
	health   *storeHealth
	hooks    *Hooks // nil: there are none

	id string // random: the first part of the client's owners

	closing basic.Closing

	queues localQueues // of the calls of Lock

	life    context.Context // ends when Close begins, with the cause errClientClosing
	endLife context.CancelCauseFunc

	warnAfter time.Duration   // how long a Lock waits before it is reported; negative for ever
	waits     periodic.Check  // of the calls in queues
	dropped   runtime.Cleanup // reports that the client is garbage

	gate basic.Gate // of acquisitions and releases; Close closes it
}

// New returns a client of the given store, without IO. The client must be closed, and closes its
// store, so each client needs a store of its own. The error names the bad argument or field of
// Options; then the store stays open.
func New(store driver.Store, o *Options) (*Client, error) {
	if basic.IsNil(store) {
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
		hooks:   opts.Hooks,
		id:      rand.Text()[:idLen],
	}
	c.life, c.endLife = context.WithCancelCause(context.Background())
	c.can = store.Describe()
	c.queues.init(opts.MaxWaiters)
	c.warnAfter = opts.WarnAfter
	c.waits.Init(c.checkWaits)
	c.releaser = storekit.NewReleaser(store, opts.Logger)
	c.health = &storeHealth{logger: opts.Logger, store: store, life: c.life}

	engine := opts.Scheduler
	if engine == nil {
		c.engineTTL = opts.TTL
		c.engine, err = wheel.New(&wheel.Options{Tick: tick(opts.TTL), Logger: opts.Logger})
		if err != nil {
			return nil, err
		}
		engine = c.engine
	}
	renewals := &renewal.Options{Policy: opts.Renewal, Logger: opts.Logger}
	if opts.Hooks != nil {
		renewals.Hooks = &renewal.Hooks{BatchDone: opts.Hooks.BatchDone}
	}
	if c.watchdog, err = renewal.New(engine, renewer{store, c.health}, renewals); err != nil {
		return nil, err
	}
	if err := c.checkTerms(opts.Terms); err != nil {
		return nil, err
	}
	store.ReportEvents(func(e renewal.Event) {
		c.health.noteEvent(e)
		c.watchdog.Record(e)
	})
	c.opened()
	return &Client{core: c, terms: opts.Terms}, nil
}

// checkTerms refuses terms that the store or the engine cannot keep.
func (c *core) checkTerms(t Terms) error {
	return cmp.Or(c.checkTTL(t), c.checkMode(t, driver.Exclusive))
}

// checkMode refuses terms that a lock of this mode cannot have, or in which the store does not support it. Readers, writers
// and permits share a key, so a MinHold would not mean that the work is done once, and they would overwrite a state.
func (c *core) checkMode(t Terms, m driver.Mode) error {
	one, saves := driver.ModesOf(driver.Exclusive), driver.Modes(0)
	if c.can.Saves {
		saves = one
	}
	for _, term := range [...]struct {
		isSet        bool
		locks, store driver.Modes // that can have it, and in which the store can do it
		what, work   string
	}{
		{t.MinHold > 0, one | driver.ModesOf(driver.Members), c.can.Keeps, "have a MinHold", "keep a " + kindOf(m) + " after its release (Terms.MinHold)"},
		{t.StateTTL > 0, one, saves, "have a state (Terms.StateTTL)", "keep a state beside a lock (Terms.StateTTL)"},
		{t.Yields, one | driver.ModesOf(driver.Read, driver.Write), c.can.Yields, "yield (Terms.Yields)", "tell a holder that others wait (Terms.Yields)"},
	} {
		switch {
		case !term.isSet:
		case !term.locks.Has(m):
			return fmt.Errorf("lock: a %s cannot %s: %w", kindOf(m), term.what, errors.ErrUnsupported)
		case !term.store.Has(m):
			return fmt.Errorf("lock: the store cannot %s: %w", term.work, errors.ErrUnsupported)
		}
	}
	return nil
}

// checkTTL refuses terms with a TTL that the store does not accept, and terms whose leases end
// before the watchdog can renew them, or notify the holder of their end.
func (c *core) checkTTL(t Terms) error {
	if err := c.store.Describe().TTL.Check(t.TTL); err != nil {
		return err
	}
	if t.Fixed {
		if c.watchdog.Validity(t.TTL) <= 0 {
			return fmt.Errorf("%w: a TTL of %v is too short for the margin", ErrBadTTL, t.TTL)
		}
		return nil
	}
	err := c.watchdog.CheckTTL(t.TTL)
	switch {
	case err == nil:
		return nil
	case c.engine != nil && t.TTL < c.engineTTL:
		return fmt.Errorf("%w: %w; set Options.TTL to the shortest TTL in use, because the tick follows from it", ErrBadTTL, err)
	case c.engine == nil:
		return fmt.Errorf("%w: %w; use an Options.Scheduler with a finer tick", ErrBadTTL, err)
	}
	return fmt.Errorf("%w: %w", ErrBadTTL, err)
}

// With returns a client that shares everything with this one but the Terms of its locks. Zero
// fields of t mean the Terms of this client. MaxHold and Fixed count as one field: either replaces
// both. [NoMaxHold] removes both, [NoMinHold] removes MinHold, and [NoState] removes StateTTL.
// Metadata and YieldAfter can be replaced but not removed, and Yields stays set. Bad Terms are the error of Lock.
// Closing either client closes both.
func (c *Client) With(t Terms) *Client {
	if !c.ok() {
		return c
	}
	t, err := t.inherit(c.terms).withDefaults("Terms.")
	if err == nil {
		err = c.checkTerms(t)
	}
	return &Client{core: c.core, terms: t, wrong: err}
}

// Stats is a snapshot of a client.
type Stats struct {
	Renewal   renewal.Stats // of the watchdog: what is held, renewed and lost
	Waiting   int           // calls of Lock that do not have their lock yet
	Releasing int           // leases that are being released in the background

	// Replicas counts the answers of the replicas that a store asks to confirm locks.
	Replicas driver.ReplicaStats
}

// Stats returns a snapshot, also after Close.
func (c *Client) Stats() Stats {
	if !c.ok() {
		return Stats{}
	}
	return Stats{
		Renewal:   c.watchdog.Stats(),
		Waiting:   c.queues.len(),
		Releasing: c.releaser.Len(),
		Replicas:  c.store.Describe().Replicas,
	}
}

// String returns a fixed text, which shows no part of an owner.
func (c *Client) String() string { return "lock client" }

// Close ends the client. Lock and TryLock return ErrClosed, also calls that wait, and so does the
// Err of each handle. Then Close releases all locks as Unlock does. It closes the engine, if it is
// the client's own, and the store.
//
// Close does as much of this as it can before ctx ends; its error names the rest, and matches the
// cause of ctx if the store did not answer. A lock that is not released ends with its TTL. Close
// waits for no hooks and no functions that the end of a lock calls.
//
// Every call waits until the first has returned, or until its own ctx ends, and returns the same
// result. A nil ctx is an error and closes nothing.
func (c *Client) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return basic.ErrNilContext
	case !c.ok():
		return errZeroClient
	}
	return c.closing.Do(ctx, func() error { return c.shutdown(ctx) })
}

func (c *core) shutdown(ctx context.Context) error {
	quiet := c.gate.Close()
	c.endLife(errClientClosing)
	openClients.Add(-1)
	c.dropped.Stop()
	c.waits.Close()

	// The wait for renewals comes last, so that a renewal that hangs does not delay the
	// releases.
	held, errHeld := c.watchdog.StopAll(ctx)
	errRunning := basic.Await(ctx, quiet)
	if errRunning != nil {
		errRunning = fmt.Errorf("lock: Close: a call of the store is still under way: %w", errRunning)
	}
	call, stop := callContext(context.Background(), ctx)
	errRelease := c.releaser.Close(ctx, call, held)
	stop()
	_, errDog := c.watchdog.Close(ctx)
	switch {
	case errHeld != nil: // many timers may be left
		errDog = fmt.Errorf("lock: Close: some holders are not told and their locks not released; their TTL ends them: %w", errHeld)
		if c.engine != nil {
			go c.engine.Close()
		}
	case c.engine != nil:
		c.engine.Close()
	}
	errStore := c.store.Shutdown(ctx)
	logging.Flush(ctx, c.logger)
	return errors.Join(errRunning, errRelease, errDog, errStore)
}

// whileOpen returns the context for a call of the store. It ends with the caller's context
// and when the client is closed. Call the function to free its resources.
func (c *core) whileOpen(caller context.Context) (context.Context, func()) {
	return callContext(c.life, caller)
}

// callContext returns a context with the values and the deadline of caller that ends with caller and with life.
// Its cause is an *endedError. The cause of caller may be any error, such as the *HeldError of another lock,
// and a store that returned it would seem to answer.
func callContext(life, caller context.Context) (context.Context, func()) {
	if caller.Done() == nil {
		return callValues{life, caller}, func() {}
	}
	ctx, cancel := context.WithCancelCause(callValues{life, caller})
	end := func() { cancel(&endedError{caller.Err()}) }
	if caller.Err() != nil {
		end()
	}
	stop := context.AfterFunc(caller, end)
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// callValues is a context that ends with its own, and has the values and the deadline of another one.
type callValues struct {
	context.Context
	of context.Context
}

// Value asks the own context first, of which package context finds the parent in this way.
func (c callValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.of.Value(key)
}

func (c callValues) Deadline() (time.Time, bool) { return c.of.Deadline() }

// owner returns a new owner for one acquisition: the id of the client, which stores may
// show, and a secret of 128 bits. The secret comes from the system each time. A generator in
// this process would repeat its numbers in the copy of a virtual machine, and two
// acquisitions would share a lock.
func (c *core) owner() string {
	const secret = 16
	var random [secret]byte
	_, _ = rand.Read(random[:]) // it never fails
	owner := make([]byte, 0, idLen+1+secret*4/3+1)
	owner = append(owner, c.id...)
	owner = append(owner, ':')
	return string(base64.RawURLEncoding.AppendEncode(owner, random[:]))
}

// idLen is the number of letters, of 5 bits each, in the id of a client. Of two clients
// with one id, one would receive the signals of the other.
const idLen = 13
