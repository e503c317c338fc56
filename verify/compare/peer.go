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

// opener makes a client of a library, with connections of its own, on the servers at the addresses.
type opener func(ctx context.Context, addrs []string) (acquirer, error)

// acquirer waits for the lock until ctx ends.
type acquirer func(ctx context.Context, key string) (*grant, error)

// grant is a lock that is held.
type grant struct {
	holds   func() bool // returns the library's answer about the lock, without IO
	token   uint64      // the fencing token; 0 if the library has none
	release func(ctx context.Context) error
}

const (
	watchInterval = time.Millisecond      // between two looks at holds
	writeInterval = 10 * time.Millisecond // between two writes of a holder
	workTime      = 5 * time.Millisecond  // between the look at holds and the write
	contendHold   = time.Millisecond      // for which a session of a contend holds the lock
)

// peer is the state of the process.
type peer struct {
	open  opener
	addrs []string // of the servers
	text  string   // the versions

	out      sync.Mutex // guards encode
	encode   *json.Encoder
	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// session is one client of the library.
type session struct {
	acquire acquirer
	held    *grant
	stop    chan struct{} // closed when the lock is released
}

// serve answers requests until the input ends.
func (p *peer) serve(in io.Reader, out io.Writer) error {
	p.encode, p.sessions = json.NewEncoder(out), map[string]*session{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		go p.reply(r) // the harness sends one request of a session at a time
	}
	return nil
}

func (p *peer) send(m message) {
	p.out.Lock()
	defer p.out.Unlock()
	_ = p.encode.Encode(m) // the input ends, too, if the harness has ended
}

func (p *peer) reply(r request) {
	m, err := p.do(context.Background(), r)
	if err != nil {
		m.Error = err.Error()
	}
	if m.At == 0 {
		m.At = now()
	}
	m.ID = r.ID
	p.send(m)
}

func (p *peer) do(ctx context.Context, r request) (message, error) {
	switch r.Do {
	case doHello:
		return message{Text: p.text}, nil
	case doOpen:
		return message{}, p.connect(ctx, r.Session, r.Key)
	case doAcquire:
		return p.acquire(ctx, r)
	case doRelease:
		return message{}, p.release(ctx, r.Session)
	case doContend:
		counts, err := p.contend(ctx, r)
		return message{Counts: counts}, err
	default:
		return message{}, fmt.Errorf("unknown request %q", r.Do)
	}
}

// connect makes the client of a session. A lock that is acquired and released once loads scripts and
// opens connections.
func (p *peer) connect(ctx context.Context, name, key string) error {
	acquire, err := p.open(ctx, p.addrs)
	if err != nil {
		return err
	}
	if err := warm(ctx, acquire, key); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[name] = &session{acquire: acquire}
	return nil
}

// warm acquires and releases a lock. On a busy machine the first try of rueidislock may take longer than
// it allows.
func warm(ctx context.Context, acquire acquirer, key string) error {
	var errs []error
	for range 4 {
		bounded, cancel := context.WithTimeout(ctx, 2*lease)
		held, err := acquire(bounded, key)
		cancel()
		if err == nil {
			return held.release(ctx)
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

func (p *peer) acquire(ctx context.Context, r request) (message, error) {
	s := p.session(r.Session)
	held, err := s.acquire(ctx, r.Key)
	if err != nil {
		return message{}, err
	}
	m := message{At: now(), Token: held.token}
	s.held, s.stop = held, make(chan struct{})
	p.watch(r.Session, held, s.stop)
	return m, nil
}

// watch reports when the library no longer counts the lock as held, and writes to the resource until
// then.
func (p *peer) watch(name string, held *grant, stop <-chan struct{}) {
	go func() {
		for every(stop, watchInterval) {
			if !held.holds() {
				p.send(message{Event: eventTold, Session: name, At: now()})
				return
			}
		}
	}()
	go func() {
		for every(stop, writeInterval) {
			if !held.holds() {
				return
			}
			time.Sleep(workTime)
			p.send(message{Event: eventWrite, Session: name, At: now(), Token: held.token})
		}
	}()
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
	if s.held == nil {
		return errors.New("not held")
	}
	close(s.stop)
	held := s.held
	s.held = nil
	return held.release(ctx)
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
				held, err := s.acquire(ctx, r.Key)
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					continue
				}
				counts[i]++
				time.Sleep(contendHold)
				_ = held.release(context.WithoutCancel(ctx))
			}
		})
	}
	all.Wait()
	return counts, errors.Join(errs...)
}
