// The messages of Redisson's channels, and their subscribers.

package redisson

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// wakeups delivers the messages of Redisson's channels to the subscribers of this process. It has one
// subscription, or one for each node of a cluster with sharded channels.
type wakeups struct {
	redis       *redisconn.Client
	unconfirmed func(error) // of the subscriptions

	mu            sync.Mutex // guards all below, and subscriber.subscription and subscriber.listener
	stopped       bool
	subscriptions map[int]*pubsub.Subscription // by Node.ID; 0 for channels that are not sharded
	channels      map[string][]*subscriber     // in the order of their arrival
}

// subscriber is one call that waits for messages of a channel.
type subscriber struct {
	channel string
	slot    uint16
	all     bool          // every message wakes all subscribers of the channel
	wake    chan struct{} // holds an element after a message

	node         int // of the subscription
	subscription *pubsub.Subscription
	listener     *pubsub.Listener
}

func newWakeups(c *redisconn.Client, unconfirmed func(error)) *wakeups {
	return &wakeups{redis: c, unconfirmed: unconfirmed, subscriptions: make(map[int]*pubsub.Subscription), channels: make(map[string][]*subscriber)}
}

// join returns a subscriber, which the caller must pass to leave. If the channel is subscribed already,
// the subscriber gets its messages from now on. Otherwise the caller must call listen.
func (w *wakeups) join(channel string, slot uint16, sharded, all bool) *subscriber {
	l := &subscriber{channel: channel, slot: slot, all: all, wake: make(chan struct{}, 1)}
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
func (w *wakeups) subscribe(l *subscriber, n *redisconn.Node) {
	id := 0
	if n != nil {
		id = n.ID()
	}
	open := func(ctx context.Context) (*redis.PubSub, func() bool) { return w.redis.Subscribe(ctx, n) }
	sub := w.subscriptions[id]
	if sub == nil {
		sub = pubsub.New(open, nil, pubsub.Options{Sharded: n != nil, Message: w.deliver, Unconfirmed: w.unconfirmed})
		if w.stopped {
			sub.Cancel() // never opens a connection
		} else {
			w.subscriptions[id] = sub
		}
	}
	l.node, l.subscription = id, sub
	name := rand.Text()
	if l.listener = sub.Join(name, l.channel); l.listener == nil {
		l.listener = pubsub.NewListener(name, l.channel)
	}
}

// listen subscribes to the channel of a subscriber. If a message may have been missed, its listener
// is notified later. When the slot of a sharded channel has moved, listen changes the subscription.
func (w *wakeups) listen(l *subscriber, sharded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodeFor(l.slot, sharded); n != nil && n.ID() != l.node || n == nil && l.node == 0 && sharded {
		l.subscription.Leave(l.listener)
		w.subscribe(l, n)
	}
	l.subscription.Listen(l.listener)
}

// leave removes a subscriber. If it was woken and not served, leave wakes the next subscriber instead,
// because a message wakes only one.
func (w *wakeups) leave(l *subscriber, served bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.subscription.Leave(l.listener)
	rest := slices.DeleteFunc(w.channels[l.channel], func(other *subscriber) bool { return other == l })
	w.channels[l.channel] = rest
	if len(rest) == 0 {
		delete(w.channels, l.channel)
	}
	if !served && len(l.wake) > 0 {
		w.wakeOne(l.channel)
	}
}

// wakeNext wakes another subscriber for one that was woken and failed. It is called before leave.
func (w *wakeups) wakeNext(l *subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.channels[l.channel] {
		if other != l && other.signal() {
			return
		}
	}
}

// wakeAllMessage is the message that wakes all waiters of a lock. Any other wakes one.
const wakeAllMessage = "1"

// deliver is called for each message of a channel.
func (w *wakeups) deliver(channel, payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	subscribers := w.channels[channel]
	if payload != wakeAllMessage && len(subscribers) > 0 && !subscribers[0].all {
		w.wakeOne(channel)
		return
	}
	for _, l := range subscribers {
		l.signal()
	}
}

// wakeOne wakes the first subscriber that has not been woken. The caller holds mu.
func (w *wakeups) wakeOne(channel string) {
	for _, l := range w.channels[channel] {
		if l.signal() {
			return
		}
	}
}

// signal wakes the subscriber. It returns false if the subscriber was woken before and has not run yet.
func (l *subscriber) signal() bool {
	select {
	case l.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

// missed returns a channel that holds an element when a message may have been missed. The caller
// must call clearMissed after it has received the element.
func (l *subscriber) missed() <-chan struct{} { return l.listener.Wake() }

func (l *subscriber) clearMissed() { l.subscription.Take(l.listener) }

// stop returns all subscriptions, and prevents further ones.
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
