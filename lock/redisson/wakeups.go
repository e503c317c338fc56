package redisson

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// wakeups delivers the messages of Redisson's channels to the sleepers of this process. It has one
// subscription, or one for each node of a cluster with sharded channels.
type wakeups struct {
	redis *redisconn.Client

	mu            sync.Mutex // guards all below, and sleeper.subscription and sleeper.listener
	stopped       bool
	subscriptions map[int]*pubsub.Subscription // by Node.ID; 0 for channels that are not sharded
	channels      map[string][]*sleeper        // in the order of their arrival
}

// sleeper is one call that waits for messages of a channel.
type sleeper struct {
	channel string
	slot    uint16
	each    bool          // every message wakes all sleepers of the channel
	wake    chan struct{} // holds an element after a message

	node         int // of the subscription
	subscription *pubsub.Subscription
	listener     *pubsub.Listener
}

func newWakeups(c *redisconn.Client) *wakeups {
	return &wakeups{redis: c, subscriptions: make(map[int]*pubsub.Subscription), channels: make(map[string][]*sleeper)}
}

// join returns a sleeper, which must leave. It gets the messages from now on if the channel is
// subscribed already. Otherwise listen subscribes.
func (w *wakeups) join(channel string, slot uint16, sharded, each bool) *sleeper {
	l := &sleeper{channel: channel, slot: slot, each: each, wake: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.channels[channel] = append(w.channels[channel], l)
	w.subscribe(l, w.nodeFor(slot, sharded))
	return l
}

// nodeFor returns the node at which a channel must be subscribed, nil if any node will do.
func (w *wakeups) nodeFor(slot uint16, sharded bool) *redisconn.Node {
	if !sharded {
		return nil
	}
	return w.redis.Serving(slot)
}

// subscribe joins the subscription of a node. The caller holds mu.
func (w *wakeups) subscribe(l *sleeper, n *redisconn.Node) {
	id, open := 0, pubsub.OpenFunc(w.redis.Subscribe)
	if n != nil {
		id, open = n.ID(), func(ctx context.Context) (*redis.PubSub, func() bool) { return w.redis.SubscribeAt(ctx, n) }
	}
	sub := w.subscriptions[id]
	if sub == nil {
		sub = pubsub.New(open, unread{}, pubsub.Options{Sharded: n != nil, Message: w.deliver})
		if w.stopped {
			sub.Cancel() // never opens a connection
		} else {
			w.subscriptions[id] = sub
		}
	}
	l.node, l.subscription = id, sub
	name := listenerName()
	if l.listener = sub.Join(name, l.channel); l.listener == nil {
		l.listener = pubsub.NewListener(name, l.channel)
	}
}

// listen subscribes to the channel of a sleeper. If a message may have been missed, its listener
// is told later. When the slot of a sharded channel has moved, listen changes the subscription.
func (w *wakeups) listen(l *sleeper, sharded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodeFor(l.slot, sharded); n != nil && n.ID() != l.node || n == nil && l.node == 0 && sharded {
		l.subscription.Leave(l.listener)
		w.subscribe(l, n)
	}
	l.subscription.Listen(l.listener)
}

// leave ends a sleeper. If it was woken and does not have what it waited for, the next sleeper is
// woken in its place.
func (w *wakeups) leave(l *sleeper, served bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.subscription.Leave(l.listener)
	rest := slices.DeleteFunc(w.channels[l.channel], func(other *sleeper) bool { return other == l })
	w.channels[l.channel] = rest
	if len(rest) == 0 {
		delete(w.channels, l.channel)
	}
	if !served && len(l.wake) > 0 {
		w.wakeOne(l.channel)
	}
}

// passOn wakes the next sleeper in place of one that was woken and failed. It is called before
// leave.
func (w *wakeups) passOn(l *sleeper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.channels[l.channel] {
		if other != l && other.signal() {
			return
		}
	}
}

// lockWakesAll is the message that wakes all waiters of a lock. Any other wakes one.
const lockWakesAll = "1"

// deliver takes a message.
func (w *wakeups) deliver(channel, payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sleepers := w.channels[channel]
	if payload != lockWakesAll && len(sleepers) > 0 && !sleepers[0].each {
		w.wakeOne(channel)
		return
	}
	for _, l := range sleepers {
		l.signal()
	}
}

// wakeOne wakes the first sleeper that has not been woken. The caller holds mu.
func (w *wakeups) wakeOne(channel string) {
	for _, l := range w.channels[channel] {
		if l.signal() {
			return
		}
	}
}

// signal reports whether the sleeper had no message.
func (l *sleeper) signal() bool {
	select {
	case l.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

// missed returns a channel that holds an element when a message may have been missed. The caller
// must call taken after it has received that.
func (l *sleeper) missed() <-chan struct{} { return l.listener.Wake() }

func (l *sleeper) taken() { l.subscription.Take(l.listener) }

// count returns the number of sleepers of a channel.
func (w *wakeups) count(channel string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.channels[channel])
}

// stop returns all subscriptions. There are no others later.
func (w *wakeups) stop() []*pubsub.Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	var all []*pubsub.Subscription
	for _, sub := range w.subscriptions {
		all = append(all, sub)
	}
	return all
}

// unread is the Codec of the subscriptions, whose messages deliver reads.
type unread struct{}

func (unread) ID(name string) string               { return name }
func (unread) Parse(string) (string, uint64, bool) { return "", 0, false }
func (unread) Verify(string, string) bool          { return false }

// listenerName names a listener of its own for each sleeper.
func listenerName() string {
	return strconv.FormatUint(sleepers.Add(1), 10)
}

var sleepers atomic.Uint64
