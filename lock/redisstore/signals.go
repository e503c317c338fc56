package redisstore

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// signals is how a store hears that locks were handed over to its waiters: one
// connection for all of them, that exists while somebody waits and a little longer.
// It is an aid that nobody may rely on. What it offers is this: while a channel is
// on, every signal on it is heard; and whoever waits is told to ask the server
// whenever a signal may have been missed.
type signals struct {
	open   func(context.Context) (ps *redis.PubSub, stays func() bool) // without IO
	prefix string                                                      // of the channels
	linger int                                                         // beats without a waiter after which it ends

	ctx    context.Context // ends with the store
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines
	change chan struct{}  // holds an element when channels are to be subscribed to or not any more

	mu       sync.Mutex // guards all below, and the fields of ear and channel
	running  bool       // there is a goroutine that sees to the connection
	ears     map[string]*ear
	channels map[string]*channel
	waiting  int // ears that listen
}

// channel is that of a client: its name is the owner of a lock up to the last
// colon.
type channel struct {
	waiting int  // ears that listen
	asked   bool // the subscription was sent
	on      bool // and confirmed
}

// ear is where a waiter hears.
type ear struct {
	wake chan struct{} // holds an element when there is something to take

	owner, channel string
	listens        bool   // it waits for signals; before it only hears them
	on             bool   // its channel was on when it began to hear
	token          uint64 // the highest that was signalled, 0 for none
	again          bool   // a signal may have been missed
}

func newSignals(open func(context.Context) (*redis.PubSub, func() bool), prefix string) *signals {
	s := &signals{
		open:     open,
		prefix:   prefix,
		linger:   linger,
		change:   make(chan struct{}, 1),
		ears:     make(map[string]*ear),
		channels: make(map[string]*channel),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the connection. Nobody is told.
func (s *signals) close() {
	s.mu.Lock() // against a listen that has begun
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// join returns an ear that hears whatever is signalled from now on, if there is a
// subscription. It is cheap, for most locks that are asked for are free.
func (s *signals) join(owner string) *ear {
	e := &ear{owner: owner, channel: owner, wake: make(chan struct{}, 1)}
	if colon := strings.LastIndexByte(owner, ':'); colon >= 0 {
		e.channel = owner[:colon]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		s.ears[owner] = e
		c := s.channels[e.channel]
		e.on = c != nil && c.on
	}
	return e
}

// listen makes sure that there is a subscription for the ear. If it was not there
// when the ear joined, the ear is told to ask again once it is.
func (s *signals) listen(e *ear) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.listens || s.ctx.Err() != nil {
		return
	}
	e.listens = true
	s.ears[e.owner] = e
	c := s.channels[e.channel]
	if c == nil {
		c = new(channel)
		s.channels[e.channel] = c
	}
	c.waiting++
	s.waiting++
	switch {
	case !c.asked:
		s.changed()
	case c.on && !e.on:
		e.ask()
	}
	if !s.running {
		s.running = true
		s.work.Go(s.run)
	}
}

// leave ends an ear.
func (s *signals) leave(e *ear) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ears, e.owner)
	if !e.listens {
		return
	}
	s.waiting--
	c := s.channels[e.channel]
	c.waiting--
	if c.waiting == 0 && len(s.channels) > 1 { // the only one is kept for the next who waits
		s.changed()
	}
}

// take returns what an ear has heard since it was asked last.
func (s *signals) take(e *ear) (token uint64, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, again = e.token, e.again
	e.token, e.again = 0, false
	return token, again
}

// heard takes a signal, "owner token", and tells the ear of that owner. Anything else is
// dropped.
func (s *signals) heard(payload string) {
	space := strings.LastIndexByte(payload, ' ')
	token, ok := parseToken(payload[space+1:])
	if !ok || space < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ears[payload[:space]]; e != nil && token > e.token {
		e.token = token
		e.rouse()
	}
}

// confirmed: a channel is on. Those who waited before may have missed a signal.
func (s *signals) confirmed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = strings.TrimPrefix(name, s.prefix)
	c := s.channels[name]
	if c == nil {
		return
	}
	c.on = true
	for _, e := range s.ears {
		if e.channel == name {
			e.ask()
		}
	}
}

// broken: the connection is gone. If it worked signals may have been missed.
func (s *signals) broken(worked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.channels {
		if c.waiting == 0 {
			delete(s.channels, name)
		}
		c.asked, c.on = false, false
	}
	for _, e := range s.ears {
		e.on = false
		if worked {
			e.ask()
		}
	}
}

// wanted returns the names of the channels to subscribe to, and of those that
// nobody needs any more.
func (s *signals) wanted() (on, off []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.channels {
		switch {
		case c.waiting == 0 && len(s.channels) > 1:
			delete(s.channels, name)
			if c.asked {
				off = append(off, s.prefix+name)
			}
		case !c.asked:
			c.asked = true
			on = append(on, s.prefix+name)
		}
	}
	return on, off
}

// idle reports whether nobody waits. If end is set nobody will: the goroutine ends.
func (s *signals) idle(end bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > 0 {
		return false
	}
	if end {
		s.running = false
		clear(s.channels)
		for _, e := range s.ears {
			e.on = false
		}
	}
	return true
}

// changed and ear.ask, ear.rouse wake others. The caller holds mu.
func (s *signals) changed() { set(s.change) }

func (e *ear) ask() {
	e.again = true
	e.rouse()
}

func (e *ear) rouse() { set(e.wake) }

func set(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
