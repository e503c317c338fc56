// This file is about the Store: its options, and how its calls begin, ask the server and fail.

package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
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
	maxCall       = 5 * time.Second // for the answers to a call that is not of a batch
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
	if filled.Stream == "" {
		filled.Stream = defaultStream
	}
	if filled.Prefix == "" {
		filled.Prefix = defaultPrefix
	}
	if filled.Replicas == 0 {
		filled.Replicas = 1
	}
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
	js     jetstream.JetStream
	batch  jetstream.JetStream // publishes the messages of batches
	stream jetstream.Stream
	prefix string
	of     Options
	clock  clock
	poll   time.Duration // lastPoll, except in tests
	bound  time.Duration // maxCall, except in tests

	addresses []string // see Describe

	closing chan struct{} // closed by close
	close   func()
}

// New returns a store that uses a stream, which CreateStream has created. It asks the server for the
// settings of the stream, and returns an error if locks are not safe with them. It also tries what the
// user of the connection is permitted to do, and returns an error if a right is missing that locks need.
// The connection stays the caller's: Close does not close it.
func New(ctx context.Context, js jetstream.JetStream, options *Options) (*Store, error) {
	if js == nil {
		return nil, errors.New("natsstore: New needs a JetStream context, got nil")
	}
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	stream, err := open(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsstore: stream %s: %w", o.Stream, because(js, o, err))
	}
	batch, err := newPublisher(js.Conn())
	if err != nil {
		return nil, err
	}
	closing := make(chan struct{})
	return &Store{
		js: js, batch: batch, stream: stream, prefix: o.Prefix, of: o, poll: lastPoll, bound: maxCall,
		addresses: addressesOf(js.Conn()),
		closing:   closing, close: sync.OnceFunc(func() {
			close(closing)
			batch.CleanupPublisher()
		}),
	}, nil
}

// newPublisher returns a context for asynchronous publications. The one of the caller has, as a
// rule, no timeout: it would keep each message without an answer until the connection breaks, and
// refuse further ones after 4,000, those of the caller too.
func newPublisher(nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTimeout), jetstream.WithPublishAsyncMaxPending(math.MaxInt))
	if err != nil {
		return nil, fmt.Errorf("natsstore: %w", err)
	}
	return js, nil
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
	}
	return err
}

// bound returns a context for the answers to one call, which may have no deadline of its own.
func bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, noAnswerError(d))
}

// noAnswerError says that there was no answer in that time.
type noAnswerError time.Duration

func (e noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// contextCause returns the cause of the end of ctx, or err if it has not ended.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close closes the store. Calls of Wait and later calls of other methods return driver.ErrStoreClosed.
// It does not close the connection, and does not wait for calls under way.
func (s *Store) Close() error {
	s.close()
	return nil
}

var _ driver.Describer = (*Store)(nil)

// Describe implements [driver.Describer]. The server has no queue. The addresses are those that the
// connection knows when New is called.
func (s *Store) Describe() driver.Description {
	return driver.Description{
		TTL:       driver.TTLLimits{Step: time.Second, Slack: expirySlack},
		Keeps:     driver.ModesOf(driver.Exclusive),
		Saves:     true,
		Unordered: driver.ModesOf(driver.Exclusive),
		Addresses: s.addresses,
	}
}

// addressesOf returns the servers that a connection knows.
func addressesOf(nc *nats.Conn) (addresses []string) {
	for _, url := range nc.Servers() {
		_, address, found := strings.Cut(url, "://")
		if !found {
			address = url
		}
		if _, host, hasUser := strings.Cut(address, "@"); hasUser {
			address = host
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// begin returns the reason not to begin a call, if there is one.
func (s *Store) begin(ctx context.Context, mode driver.Mode) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.closing:
		return driver.ErrStoreClosed
	default:
	}
	if mode != driver.Exclusive {
		return errors.ErrUnsupported
	}
	return nil
}

// failed returns the error of a call about a key. Answers about locks, and reasons why the call did
// not begin, have no more to say.
func (s *Store) failed(ctx context.Context, verb, key string, err error) error {
	switch {
	case err == nil, errors.As(err, new(*driver.HeldError)),
		errors.Is(err, driver.ErrNotHeld), errors.Is(err, driver.ErrStoreClosed), errors.Is(err, errors.ErrUnsupported):
		return err
	case ctx.Err() != nil:
		return because(s.js, s.of, err)
	}
	return fmt.Errorf("natsstore: %s %q: %w", verb, key, because(s.js, s.of, err))
}

func (s *Store) subject(key string) string     { return s.prefix + ".k." + encodeName(key) }
func (s *Store) releases(key string) string    { return s.prefix + ".w." + encodeName(key) }
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
	if err := s.connected(ctx); err != nil {
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
func (s *Store) connected(ctx context.Context) error {
	nc := s.js.Conn()
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

func disconnected(nc *nats.Conn) bool {
	switch nc.Status() {
	case nats.CONNECTING, nats.DISCONNECTED, nats.RECONNECTING:
		return true
	default:
		return false
	}
}

// errConflict says that a subject has another last message than the expected one.
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
		timer := time.NewTimer(a.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
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

// errNoServer says that a message has reached no server that could store it.
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
