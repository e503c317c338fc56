// The Store: its options, its connection, and how its calls begin, ask the server and fail.

package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	defaultStream = "LEASEWHEEL"
	defaultPrefix = "leasewheel"
	markerTTL     = time.Second // of the message of a free lock; the least that the server allows
	tombstoneTTL  = time.Minute
	duplicates    = 2 * time.Minute  // in which the server knows the ids of messages; at least tombstoneTTL
	clockAge      = time.Minute      // how long the difference of the clocks is used
	expirySlack   = 2 * time.Second  // in which the server removes an expired message
	consumerTTL   = 10 * time.Second // of the consumer of a List that does not end
	maxConflicts  = 10               // attempts against concurrent requests, before a call gives up
	firstPause    = time.Millisecond // after an attempt that the leader refuses for a message that it has not stored yet
	lastPause     = 50 * time.Millisecond
	maxCall       = 5 * time.Second // for the answers to a call that is not of a batch, and for a write to the connection
	maxPing       = 5 * time.Second // between two pings of the connection, which breaks when two are without an answer
	leastMsgSize  = 8 << 10         // of the largest message, which has driver.MaxMetadataLen bytes of metadata in base64

	// A message of a batch without an answer is forgotten after answerTimeout, even if its call has
	// returned long before. It is longer than a large batch takes on a slow disk.
	answerTimeout = time.Minute
)

// Options are the settings of a store. The zero value is valid.
type Options struct {
	// Stream is the name of the stream. The default is LEASEWHEEL.
	Stream string

	// Prefix is the first part of all subjects. The default is leasewheel. A stream has one prefix.
	Prefix string

	// Replicas is the number of servers that store the stream that CreateStream creates: 1, 3 or 5.
	// The default is 1.
	Replicas int
}

func (o *Options) withDefaults() (Options, error) {
	var filled Options
	if o != nil {
		filled = *o
	}
	filled.Stream, filled.Prefix, filled.Replicas = cmp.Or(filled.Stream, defaultStream), cmp.Or(filled.Prefix, defaultPrefix), cmp.Or(filled.Replicas, 1)
	switch {
	case strings.ContainsAny(filled.Stream, " .*>/\\\t\r\n"):
		return filled, fmt.Errorf("natsstore: Options.Stream: %q has a character that names of streams must not have", filled.Stream)
	case strings.ContainsAny(filled.Prefix, " *>\t\r\n"), strings.HasPrefix(filled.Prefix, "."),
		strings.HasSuffix(filled.Prefix, "."), strings.Contains(filled.Prefix, ".."):
		return filled, fmt.Errorf("natsstore: Options.Prefix: %q is no prefix of a subject", filled.Prefix)
	case filled.Replicas < 1 || filled.Replicas > 5:
		return filled, fmt.Errorf("natsstore: Options.Replicas must be 1 to 5, got %d", filled.Replicas)
	}
	return filled, nil
}

// Store keeps locks in a stream. It is safe for concurrent use.
type Store struct {
	driver.Base

	js     jetstream.JetStream // on a connection of its own
	stream jetstream.Stream
	prefix string
	of     Options
	clock  clock
	poll   time.Duration // lastPoll, except in tests
	bound  time.Duration // maxCall, except in tests

	addresses []string // see Describe

	calls *storekit.Calls // Close does not wait for them
}

// New returns a store that uses a stream, which CreateStream has created. It asks the server for the
// settings of the stream, and returns an error if locks are not safe with them. It also tries what the
// user of the connection is permitted to do, and returns an error if a right is missing that locks need.
//
// The store opens a connection of its own, with the servers, the user and the other options of that of js. It
// reconnects without end, notices a server that is silent within 15 s, and calls no function of the program but those
// of its options that dial and authenticate. Close closes it; the connection of js stays the caller's.
func New(ctx context.Context, js jetstream.JetStream, options *Options) (*Store, error) {
	if js == nil {
		return nil, errors.New("natsstore: New needs a JetStream context, got nil")
	}
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	own, stream, err := connect(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsstore: stream %s: %w", o.Stream, err)
	}
	return &Store{
		js: own, stream: stream, prefix: o.Prefix, of: o, poll: lastPoll, bound: maxCall,
		addresses: storekit.Addresses(own.Conn().Servers()), calls: storekit.NewCalls(),
	}, nil
}

// connect returns a JetStream context like js on a connection of its own, and the stream. The program may fill the
// connection of js, which then blocks all who publish, whatever their contexts are, and may let that connection end
// after some attempts to reconnect, which is the default of NATS.
func connect(ctx context.Context, js jetstream.JetStream, o Options) (jetstream.JetStream, jetstream.Stream, error) {
	ctx, cancel := bound(ctx, maxCall)
	defer cancel()
	nc, err := dial(ctx, js.Conn().Opts)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", strings.Join(storekit.Addresses(js.Conn().Servers()), ", "), err)
	}
	own, err := like(js, nc)
	var stream jetstream.Stream
	if err == nil {
		stream, err = open(ctx, own, o)
	}
	if err != nil {
		err = because(own, o, err)
		nc.Close()
		return nil, nil, err
	}
	return own, stream, nil
}

// dial opens a connection with the options of another one. It tries until ctx ends.
func dial(ctx context.Context, o nats.Options) (*nats.Conn, error) {
	o.AllowReconnect, o.MaxReconnect, o.RetryOnFailedConnect, o.IgnoreAuthErrorAbort = true, -1, false, true
	o.FlusherTimeout, o.ReconnectOnFlusherError = maxCall, true
	if o.PingInterval <= 0 || o.PingInterval > maxPing {
		o.PingInterval, o.MaxPingsOut = maxPing, nats.DefaultMaxPingOut
	}
	o.NoEcho = false // a store receives what it sends to waiters
	o.ClosedCB, o.DisconnectedCB, o.ConnectedCB, o.ReconnectedCB, o.DiscoveredServersCB, o.LameDuckModeHandler = nil, nil, nil, nil, nil, nil
	o.DisconnectedErrCB, o.ReconnectErrCB = nil, nil
	o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // instead of a print; because reads the error
	for {
		nc, err := dialOnce(ctx, o)
		if err == nil {
			return nc, nil
		}
		if basic.Sleep(ctx, retryPause) != nil {
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return nil, err
		}
	}
}

// dialOnce opens a connection, or returns when ctx ends.
func dialOnce(ctx context.Context, o nats.Options) (*nats.Conn, error) {
	type result struct {
		nc  *nats.Conn
		err error
	}
	dialed := make(chan result, 1)
	go func() {
		nc, err := o.Connect()
		dialed <- result{nc, err}
	}()
	select {
	case r := <-dialed:
		return r.nc, r.err
	case <-ctx.Done():
		go func() {
			if r := <-dialed; r.err == nil {
				r.nc.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// like returns a JetStream context on nc for the same domain or prefix of the API as js. A message without an answer
// is forgotten after a time, and does not hinder further ones.
func like(js jetstream.JetStream, nc *nats.Conn) (jetstream.JetStream, error) {
	of := js.Options()
	opts := []jetstream.JetStreamOpt{jetstream.WithPublishAsyncTimeout(answerTimeout), jetstream.WithPublishAsyncMaxPending(math.MaxInt)}
	if of.ClientTrace != nil {
		opts = append(opts, jetstream.WithClientTrace(of.ClientTrace))
	}
	switch {
	case of.Domain != "":
		return jetstream.NewWithDomain(nc, of.Domain, opts...)
	case of.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, of.APIPrefix, opts...)
	}
	return jetstream.New(nc, opts...)
}

// because adds the reason why there is no answer to an error, if the connection knows one.
func because(js jetstream.JetStream, o Options, err error) error {
	nc := js.Conn()
	last := nc.LastError()
	switch status := nc.Status(); {
	case err == nil:
		return nil
	case last != nil && errors.Is(err, last):
		return err
	case status != nats.CONNECTED && last == nil:
		return fmt.Errorf("%w: the connection is %s", err, strings.ToLower(status.String()))
	case status != nats.CONNECTED:
		return fmt.Errorf("%w: the connection is %s: %w", err, strings.ToLower(status.String()), last)
	case refused(nc, `"`+o.Prefix+"."), refused(nc, "."+o.Stream), refused(nc, `"`+cmp.Or(nc.Opts.InboxPrefix, nats.InboxPrefix)):
		return fmt.Errorf("%w: %w", err, last)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: CreateStream creates it", err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: the stream %s is missing, which CreateStream creates, or it has no leader", err, o.Stream)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: the server has no JetStream, or not for this account and domain", err)
	}
	return err
}

// bound returns a context for the answers to one call, which may have no deadline of its own.
func bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, driver.NoAnswerError(d))
}

// contextCause returns the cause of the end of ctx, or err if it has not ended.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close closes the store and its connection. It does not wait for calls under way, which return
// driver.ErrStoreClosed, as later ones do.
func (s *Store) Close() error {
	s.calls.End()
	s.js.Conn().Close() // ends the publisher, too
	return nil
}

// Shutdown is Close.
func (s *Store) Shutdown(context.Context) error { return s.Close() }

// ReportEvents implements [driver.Store]. A server that was restarted without its data ends the connection.
func (s *Store) ReportEvents(report func(renewal.Event)) {
	s.js.Conn().SetReconnectHandler(func(*nats.Conn) {
		report(renewal.Event{Kind: renewal.EventVerify, Lane: renewal.AllLanes, Detail: "the connection was made again"})
	})
}

var _ driver.Store = (*Store)(nil)

// Describe implements [driver.Store]. The server has no queue. The addresses are those that the
// connection knows when New is called.
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Waits: true, Inspects: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
		TTL:       driver.TTLLimits{Step: time.Second, Slack: expirySlack},
		Keeps:     driver.ModesOf(driver.Exclusive),
		Yields:    driver.ModesOf(driver.Exclusive),
		Unordered: driver.ModesOf(driver.Exclusive),
		Addresses: s.addresses,
	}
}

// begin returns the reason not to begin a call, if there is one.
func (s *Store) begin(ctx context.Context, mode driver.Mode) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.calls.Ctx.Err() != nil {
		return driver.ErrStoreClosed
	}
	if mode != driver.Exclusive {
		return errors.ErrUnsupported
	}
	return nil
}

// call runs f within the time of a call.
func (s *Store) call(ctx context.Context, mode driver.Mode, verb string, f func(ctx context.Context) error) error {
	err := s.begin(ctx, mode)
	if err == nil {
		bounded, cancel := bound(ctx, s.bound)
		defer cancel()
		err = f(bounded)
	}
	return s.failed(ctx, verb, err)
}

// hasClosed reports whether an error comes from Close.
func (s *Store) hasClosed(err error) bool {
	return errors.Is(err, driver.ErrStoreClosed) || errors.Is(err, nats.ErrConnectionClosed) && s.js.Conn().IsClosed()
}

// failed returns the error of a call. Answers about locks, and reasons why the call did
// not begin, are returned as they are.
func (s *Store) failed(ctx context.Context, verb string, err error) error {
	switch {
	case s.hasClosed(err):
		return driver.ErrStoreClosed
	case err == nil, errors.As(err, new(*driver.HeldError)),
		errors.Is(err, driver.ErrNotHeld), errors.Is(err, errors.ErrUnsupported):
		return err
	case ctx.Err() != nil:
		return because(s.js, s.of, err)
	}
	return fmt.Errorf("natsstore: %s: %w", verb, because(s.js, s.of, err))
}

func (s *Store) subject(key string) string     { return s.prefix + ".k." + encodeName(key) }
func (s *Store) releases(key string) string    { return s.prefix + ".w." + encodeName(key) }
func (s *Store) asks(key string) string        { return s.prefix + ".w.=" + encodeName(key) }
func (s *Store) tombstone(owner string) string { return s.prefix + ".x." + encodeName(owner) }

// message returns a message for a lock that the server accepts only after the message after.
func (s *Store) message(key string, r record, ttl time.Duration, after uint64, id string) *nats.Msg {
	m := nats.NewMsg(s.subject(key))
	m.Data = encode(r)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(after))
	m.Header.Set(jetstream.MsgTTLHeader, serverTTL(ttl).String())
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	return m
}

// publish sends a message and returns its sequence. The error matches errConflict if another message
// came first.
func (s *Store) publish(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	if err := connected(ctx, s.js.Conn()); err != nil {
		return nil, err
	}
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectStream(s.of.Stream))
	if err != nil {
		return nil, publishError(ctx, err)
	}
	return ack, nil
}

// connected waits for the connection, if the client reconnects. The client keeps a message that is
// published meanwhile, and sends it later, perhaps long after the call has ended.
func connected(ctx context.Context, nc *nats.Conn) error {
	if !disconnected(nc) {
		return nil
	}
	changes := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(changes)
	for disconnected(nc) {
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoServer, context.Cause(ctx))
		}
	}
	return nil
}

func disconnected(nc *nats.Conn) bool { return !nc.IsConnected() && !nc.IsClosed() }

// errConflict means that a subject has another last message than the expected one.
var errConflict = errors.New("another request came first")

// attempts are those of one call to publish a message that the server accepts only after the last one
// of a subject.
type attempts struct {
	used  int
	after uint64        // the sequence after which the message of the last attempt had to come
	pause time.Duration // the last one
}

// next returns nil if the call may try to publish its message after seq, and the error that ends the
// call otherwise. If the last attempt was refused and seq is the same, the leader of a replicated
// stream has accepted a message that it has not stored yet, and which refers to the subject, as a
// save does. The leader refuses each further one until then. So next pauses, and the attempt does not
// count. It stores messages in order, so the pauses last no longer than a message takes at that time.
func (a *attempts) next(ctx context.Context, seq uint64) error {
	switch {
	case a.used > 0 && a.after == seq:
		a.pause = min(max(2*a.pause, firstPause), lastPause)
		if basic.Sleep(ctx, a.pause) != nil {
			return context.Cause(ctx)
		}
		return nil
	case a.used == maxConflicts:
		return fmt.Errorf("%d attempts met other requests", maxConflicts)
	}
	a.used, a.after, a.pause = a.used+1, seq, 0
	return nil
}

// publishError makes the error of a publication one of this package.
func publishError(ctx context.Context, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && // before the end of ctx, because it is an answer
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errConflict
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: %w", errNoServer, err)
	}
	return fmt.Errorf("publish: %w", err)
}

// errNoServer means that a message has reached no server that could store it.
var errNoServer = errors.New("no server answers for the stream")

// notSent makes the error of a call that no server has received match driver.ErrNotSent.
func notSent(err error) error {
	if errors.Is(err, errNoServer) {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// last returns the last message of a lock, as the leader of the stream has it.
func (s *Store) last(ctx context.Context, key string) (entry, error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, s.subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case ctx.Err() != nil:
		return entry{}, context.Cause(ctx)
	case err != nil:
		return entry{}, fmt.Errorf("read the lock: %w", err)
	}
	return decode(m)
}

// replaced is what replace has done.
type replaced struct {
	cur  entry // the message before
	seq  uint64
	sent time.Time
}

// replace publishes a message after the last one of a lock, from which next makes it. It tries again if the message of
// another request came first.
func (s *Store) replace(ctx context.Context, key string, a attempts, next func(cur entry) (record, time.Duration, error)) (replaced, error) {
	for {
		cur, err := s.last(ctx, key)
		if err != nil {
			return replaced{}, err
		}
		rec, ttl, err := next(cur)
		if err == nil {
			err = a.next(ctx, cur.seq)
		}
		if err != nil {
			return replaced{}, err
		}
		sent := time.Now()
		ack, err := s.publish(ctx, s.message(key, rec, ttl, cur.seq, ""))
		switch {
		case err == nil:
			return replaced{cur, ack.Sequence, sent}, nil
		case !errors.Is(err, errConflict):
			return replaced{}, err
		}
	}
}

// notHeld makes the error of a call about a lease driver.ErrNotHeld if the subject has another message than that of a lock.
func notHeld(err error) error {
	if errors.Is(err, driver.ErrWrongType) {
		return driver.ErrNotHeld
	}
	return err
}
