// The process of a client that is written in Go.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Client is what an adapter makes of a library: one client with connections of its own.
type Client interface {
	// Acquire waits for the lock until ctx ends.
	Acquire(ctx context.Context, key string) (Lease, error)
}

// Lease is a lock that is held.
type Lease interface {
	// Holds reports what the library says about the lock, without IO.
	Holds() bool

	// Token returns the fencing token, or 0 if the library has none.
	Token() uint64

	Release(ctx context.Context) error
}

// Asker is a Lease of a library that says only after IO whether the lock is held. The process asks in
// the background. An error is no answer.
type Asker interface {
	Ask(ctx context.Context) (held bool, err error)
}

const (
	watchInterval = time.Millisecond       // between two looks at Holds
	askInterval   = 100 * time.Millisecond // between two calls of Ask
	writeInterval = 10 * time.Millisecond  // between two writes of a holder
	workTime      = 5 * time.Millisecond   // between the look at Holds and the write
	contendHold   = time.Millisecond       // for which a session of a contend holds the lock
)

// peer is the state of the process.
type peer struct {
	open func(ctx context.Context) (Client, error)
	text string // the versions

	out      sync.Mutex // guards encode
	encode   *json.Encoder
	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// session is one client of the library.
type session struct {
	client Client
	cancel context.CancelFunc // of the wait
	lease  Lease
	stop   chan struct{} // closed when the lock is released
}

// serve answers requests until the input ends.
func (p *peer) serve(in io.Reader, out io.Writer) error {
	p.encode, p.sessions = json.NewEncoder(out), map[string]*session{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		switch r.Do { // the harness sends one request of a session at a time, except cancel
		case doCancel:
			p.cancel(r.Session)
			p.send(message{ID: r.ID, At: now()})
		case doAcquire:
			ctx := p.begin(r.Session)
			go p.reply(r, func() (message, error) { return p.acquire(ctx, r) })
		default:
			go p.reply(r, func() (message, error) { return p.do(r) })
		}
	}
	return nil
}

func (p *peer) send(m message) {
	p.out.Lock()
	defer p.out.Unlock()
	_ = p.encode.Encode(m) // the input ends, too, if the harness has ended
}

func (p *peer) reply(r request, f func() (message, error)) {
	m, err := f()
	if err != nil {
		m.Error = err.Error()
	}
	if m.At == 0 {
		m.At = now()
	}
	m.ID = r.ID
	p.send(m)
}

func (p *peer) do(r request) (message, error) {
	switch r.Do {
	case doHello:
		return message{Text: p.text}, nil
	case doOpen:
		return message{}, p.connect(context.Background(), r.Session, r.Key)
	case doRelease:
		return message{}, p.release(context.Background(), r.Session)
	case doContend:
		counts, err := p.contend(context.Background(), r)
		return message{Counts: counts}, err
	default:
		return message{}, fmt.Errorf("unknown request %q", r.Do)
	}
}

// connect makes the client of a session. A lock that is acquired and released once loads scripts and
// opens connections.
func (p *peer) connect(ctx context.Context, name, key string) error {
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	if err := warm(ctx, c, key); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[name] = &session{client: c}
	return nil
}

// warm acquires and releases a lock. On a busy machine the first try of rueidislock may take longer than
// it allows.
func warm(ctx context.Context, c Client, key string) error {
	var errs []error
	for range 4 {
		bounded, cancel := context.WithTimeout(ctx, 2*lease)
		l, err := c.Acquire(bounded, key)
		cancel()
		if err == nil {
			return l.Release(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *peer) session(name string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[name]
}

// begin returns the context of a wait, which cancel ends.
func (p *peer) begin(name string) context.Context {
	s := p.session(name)
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cancel = cancel
	return ctx
}

func (p *peer) cancel(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[name].cancel()
}

func (p *peer) acquire(ctx context.Context, r request) (message, error) {
	s := p.session(r.Session)
	l, err := s.client.Acquire(ctx, r.Key)
	if err != nil {
		return message{}, err
	}
	m := message{At: now(), Token: l.Token()}
	s.lease, s.stop = l, make(chan struct{})
	p.watch(r.Session, s)
	return m, nil
}

// watch tells when the library no longer says that the lock is held, and writes to the resource until
// then.
func (p *peer) watch(name string, s *session) {
	l, stop := s.lease, s.stop
	holds := l.Holds
	if a, ok := l.(Asker); ok {
		holds = asked(stop, a)
	}
	go func() {
		for every(stop, watchInterval) {
			if !holds() {
				p.send(message{Event: eventTold, Session: name, At: now()})
				return
			}
		}
	}()
	go func() {
		for every(stop, writeInterval) {
			if !holds() {
				return
			}
			time.Sleep(workTime)
			p.send(message{Event: eventWrite, Session: name, At: now(), Token: l.Token()})
		}
	}()
}

// asked asks in the background and returns a function that returns the last answer.
func asked(stop <-chan struct{}, a Asker) func() bool {
	var mu sync.Mutex
	held := true
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-stop
		cancel()
	}()
	go func() {
		for every(stop, askInterval) {
			if yes, err := a.Ask(ctx); err == nil && !yes {
				mu.Lock()
				held = false
				mu.Unlock()
				return
			}
		}
	}()
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return held
	}
}

// every waits and returns true, or false if stop is closed.
func every(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (p *peer) release(ctx context.Context, name string) error {
	s := p.session(name)
	if s.lease == nil {
		return errors.New("not held")
	}
	close(s.stop)
	l := s.lease
	s.lease = nil
	return l.Release(ctx)
}

// contend has N sessions acquire and release one lock, each with a client of its own that open has
// made, and counts the turns of each.
func (p *peer) contend(ctx context.Context, r request) ([]int, error) {
	counts := make([]int, r.N)
	errs := make([]error, r.N)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Millis)*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for i := range r.N {
		s := p.session(fmt.Sprint(r.Session, i))
		all.Go(func() {
			for ctx.Err() == nil {
				l, err := s.client.Acquire(ctx, r.Key)
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					continue
				}
				counts[i]++
				time.Sleep(contendHold)
				_ = l.Release(context.WithoutCancel(ctx))
			}
		})
	}
	all.Wait()
	return counts, errors.Join(errs...)
}
