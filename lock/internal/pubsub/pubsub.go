// Package pubsub shares one subscription to Redis channels among many listeners.
//
// A message may be lost. While a channel is on, its listeners receive every message; when
// one may have been missed, they are notified. A listener must therefore be able to find
// out in another way what a message would have reported.
package pubsub

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Codec gives messages their meaning. Its methods must not block.
type Codec interface {
	// ID returns the text by which messages address the listener of that name.
	ID(name string) string

	// Parse returns the id in a message, and the value that the message carries. The value
	// 0 makes the listener act as if a message was missed.
	Parse(payload string) (id string, value uint64, ok bool)

	// Verify reports whether the message comes from a sender that knows the name of the
	// listener. Anybody who may publish can send messages.
	Verify(name, payload string) bool
}

// OpenFunc returns a subscription to no channel, without IO. Before each ping, stays reports
// whether the subscription still is at a node where messages arrive.
type OpenFunc func(ctx context.Context) (ps *redis.PubSub, stays func() bool)

// Subscription delivers messages to listeners. It opens a connection for the first active
// listener and closes it some time after the last one has left. Its methods are safe
// for concurrent use.
type Subscription struct {
	open  OpenFunc
	codec Codec
	opts  Options
	proof atomic.Pointer[string] // the message of Prove; nil: none is under way

	ctx    context.Context // ends with Cancel
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutine of run
	change chan struct{}  // holds an element when wanted has something to return

	mu        sync.Mutex // guards all below, and the fields of channels and listeners
	running   bool       // run is running
	listeners map[string]*Listener
	channels  map[string]*channel
	leaving   map[string]int // of sharded channels: unsubscriptions that the server has not confirmed
	active    int            // listeners that are active
	proven    bool           // Prove is not called any more
}

// channel is the state of one Redis channel.
type channel struct {
	active    int  // its listeners that are active
	requested bool // SUBSCRIBE was sent
	on        bool // the server has confirmed it
}

// Listener receives the messages that carry its id. The Subscription guards its fields.
type Listener struct {
	wake chan struct{} // holds an element when Take has something to return
	call func()        // is called instead; or nil

	name    string
	channel string
	id      string // "" while the Subscription does not know the listener
	active  bool   // Listen was called
	on      bool   // the channel was on at Join
	value   uint64 // the highest in the messages since the last Take
	payload string // of the message with that value
	missed  bool   // a message may have been missed since then
}

// Options configure a Subscription.
type Options struct {
	// Prefix is the beginning of the names of all channels.
	Prefix string

	// IdleTimeout is how long a connection outlives the last active listener, in whole
	// seconds. Default 30 s.
	IdleTimeout time.Duration

	// Sharded uses SSUBSCRIBE: messages arrive at the node of a cluster that serves the slot of
	// their channel. The subscription must be at that node. If a slot moves away, the connection
	// ends, and all listeners are notified that they may have missed a message.
	Sharded bool

	// Message, if it is set, gets all messages instead of the Codec, which is nil then, with the name of
	// their channel without the prefix. Listeners are only notified when a message may have been missed. Message
	// must not block.
	Message func(channel, payload string)

	// Unconfirmed, if it is set, is called when the server refuses to subscribe, or has confirmed no
	// channel on maxUnconfirmed connections in a row. Some servers and proxies have no messages. The
	// Subscription goes on trying. Unconfirmed must not block.
	Unconfirmed func(err error)

	// Prove, if it is set, sends a message to a channel in the way in which the others come. The Subscription calls it when
	// the server has confirmed its first channel. If the message does not arrive within two pings, the Subscription calls
	// Unconfirmed, as it does with an error of Prove that matches errors.ErrUnsupported. It calls Prove again if another
	// error or the end of the connection comes before. Unconfirmed must be set, too.
	Prove func(ctx context.Context, channel, message string) error
}

// New returns a subscription, which must be closed. It does no IO.
func New(open OpenFunc, codec Codec, o Options) *Subscription {
	if o.IdleTimeout == 0 {
		o.IdleTimeout = idleTimeout
	}
	s := &Subscription{
		open:      open,
		codec:     codec,
		opts:      o,
		change:    make(chan struct{}, 1),
		listeners: make(map[string]*Listener),
		channels:  make(map[string]*channel),
		leaving:   make(map[string]int),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Cancel ends the subscription without waiting. Listeners are not notified.
func (s *Subscription) Cancel() { s.cancel() }

// Close calls Cancel and waits until the connection is closed.
func (s *Subscription) Close() {
	s.mu.Lock() // Listen does not start run after this
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// NewListener returns a listener that receives messages once Listen is called.
func NewListener(name, channel string) *Listener {
	return &Listener{name: name, channel: channel, wake: make(chan struct{}, 1)}
}

// NewCaller returns a listener that calls a function instead, for each message and each time that it may have
// missed one. The function must not block, and is called with a mutex of the Subscription held.
func NewCaller(name, channel string, call func()) *Listener {
	return &Listener{name: name, channel: channel, call: call}
}

// Join returns a listener that receives messages from now on, and must leave. If the
// Subscription is not running for others, Join returns nil: nothing could be received, and a
// NewListener misses no more. Most callers then never need one.
func (s *Subscription) Join(name, channel string) *Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil
	}
	l := NewListener(name, channel)
	s.add(l)
	c := s.channels[channel]
	l.on = c != nil && c.on
	return l
}

// Listen makes a listener active: the Subscription subscribes to its channel. If the
// channel was not on at Join, the listener is notified later that it may have missed a message.
func (s *Subscription) Listen(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.active || s.ctx.Err() != nil {
		return
	}
	l.active = true
	s.add(l)
	c := s.channels[l.channel]
	if c == nil {
		c = new(channel)
		s.channels[l.channel] = c
	}
	c.active++
	s.active++
	switch {
	case !c.requested:
		notify(s.change)
	case c.on && !l.on:
		l.miss()
	}
	if !s.running {
		s.running = true
		s.work.Go(s.run)
	}
}

// add makes a listener known. The caller holds mu.
func (s *Subscription) add(l *Listener) {
	switch {
	case l.id != "":
	case s.codec == nil:
		l.id = l.name
	default:
		l.id = s.codec.ID(l.name)
	}
	s.listeners[l.id] = l
}

// Leave ends a listener. A nil listener does nothing.
func (s *Subscription) Leave(l *Listener) {
	if l == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[l.id] == l { // not a later one of the same name
		delete(s.listeners, l.id)
	}
	if !l.active {
		return
	}
	s.active--
	c := s.channels[l.channel]
	c.active--
	if c.active == 0 && len(s.channels) > 1 { // the last channel is kept for the next listener
		notify(s.change)
	}
}

// Wake returns a channel that holds an element when Take has something to return.
func (l *Listener) Wake() <-chan struct{} { return l.wake }

// Take returns the highest value that a listener has received since the last Take, with its message,
// and whether it may have missed a message.
func (s *Subscription) Take(l *Listener) (value uint64, payload string, missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, payload, missed = l.value, l.payload, l.missed
	l.value, l.payload, l.missed = 0, "", false
	return value, payload, missed
}

// deliver gives a message to the listener that it addresses.
func (s *Subscription) deliver(payload string) {
	id, value, ok := s.codec.Parse(payload)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.listeners[id]; {
	case l == nil || !s.codec.Verify(l.name, payload):
	case value == 0:
		l.miss()
	case value > l.value:
		l.value, l.payload = value, payload
		l.notify()
	}
}

// confirmed notes that the server has confirmed a channel. Its listeners may have missed
// messages before.
func (s *Subscription) confirmed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[name]
	if c == nil {
		return
	}
	c.on = true
	if !s.proven && s.opts.Prove != nil {
		notify(s.change)
	}
	for _, l := range s.listeners {
		if l.channel == name {
			l.miss()
		}
	}
}

// unproven returns a channel for Prove, or "" if Prove need not be called. If ok is set, it need not be called again.
func (s *Subscription) unproven(ok bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven = s.proven || ok
	for name, c := range s.channels {
		if c.on && !s.proven && s.opts.Prove != nil {
			return s.opts.Prefix + name
		}
	}
	return ""
}

// unsubscribed notes that the server has ended the subscription to a sharded channel. It reports
// whether the subscription had asked for that. Otherwise the node serves the channel no more.
func (s *Subscription) unsubscribed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.leaving[name] > 0
	if s.leaving[name]--; s.leaving[name] <= 0 {
		delete(s.leaving, name)
	}
	return asked
}

// disconnected notes that the connection has ended. If it had worked, every listener may
// have missed a message. A caller learns that when its channel is confirmed again.
func (s *Subscription) disconnected(worked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.channels {
		if c.active == 0 {
			delete(s.channels, name)
		}
		c.requested, c.on = false, false
	}
	clear(s.leaving)
	for _, l := range s.listeners {
		l.on = false
		if worked && l.call == nil {
			l.miss()
		}
	}
}

// wanted returns the names of the channels to subscribe to, and of those that no listener
// needs any more.
func (s *Subscription) wanted() (on, off []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.channels {
		switch {
		case c.active == 0 && len(s.channels) > 1:
			delete(s.channels, name)
			if c.requested {
				off = append(off, s.opts.Prefix+name)
				if s.opts.Sharded {
					s.leaving[name]++
				}
			}
		case !c.requested:
			c.requested = true
			on = append(on, s.opts.Prefix+name)
		}
	}
	return on, off
}

// isIdle reports whether no listener is active.
func (s *Subscription) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// stop reports whether no listener is active. If so, run must return: the next Listen
// starts it again.
func (s *Subscription) stop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active > 0 {
		return false
	}
	s.running = false
	clear(s.channels)
	clear(s.leaving)
	for _, l := range s.listeners {
		l.on = false
	}
	return true
}

// miss notifies a listener that it may have missed a message. The caller holds mu.
func (l *Listener) miss() {
	l.missed = true
	l.notify()
}

func (l *Listener) notify() {
	if l.call != nil {
		l.value, l.missed = 0, false
		l.call()
		return
	}
	notify(l.wake)
}

// notify puts an element into a flag that holds one at most.
func notify(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
