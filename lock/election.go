package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Election has one leader at a time, of all who campaign for the same key in
// whatever process: who holds an exclusive lock whose metadata are the leader's name.
//
// The handle that Campaign returns is the leadership. Its Token is the term: higher
// than that of every leader before, so that what the leader acts on can refuse those
// of the past; see [Held.Token]. Its Done and contexts tell of the end of the
// leadership. Unlock resigns, and the next who campaigns is the leader at once.
//
// A leader that dies is followed within one TTL. That there is a leader does not mean
// that it works: it is one as long as its process renews the lease.
//
// An Election is a [Locker], so [Do] runs a function while it leads. It is not
// reentrant. It holds no state, and its methods are safe for concurrent use.
type Election struct {
	client *Client
	key    string
	name   string
}

var _ Locker = (*Election)(nil)

// Election returns the election with the given key, for a candidate with a name that
// others see: of a host, say. See [Client.Mutex] for what a key may be. The name has 1
// to MaxMetadataLen bytes and takes the place of [Terms.Metadata]. Those who only
// observe need none: an empty name is the error of Campaign.
func (c *Client) Election(key, name string) *Election {
	return &Election{client: c, key: key, name: name}
}

// Campaign waits until it is the leader, ctx ends or the client is closed. It is
// [Mutex.Lock] in all that this says of waiting, of errors and of what is left behind.
func (e *Election) Campaign(ctx context.Context) (*Held, error) { return e.acquire(ctx, true) }

// Lock is Campaign.
func (e *Election) Lock(ctx context.Context) (*Held, error) { return e.acquire(ctx, true) }

// TryLock becomes the leader if there is none and nobody waits; see [Mutex.TryLock].
func (e *Election) TryLock(ctx context.Context) (*Held, error) { return e.acquire(ctx, false) }

// Key returns the key.
func (e *Election) Key() string { return e.key }

func (e *Election) acquire(ctx context.Context, wait bool) (*Held, error) {
	switch {
	case e == nil || e.client == nil:
		return nil, errZeroLock
	case e.name == "" || len(e.name) > MaxMetadataLen:
		return nil, failed("", e.key, fmt.Errorf("the name of a candidate must have 1 to %d bytes, got %d", MaxMetadataLen, len(e.name)))
	}
	candidate := *e.client
	candidate.terms.Metadata = e.name
	return candidate.acquire(ctx, Request{Key: e.key}, wait)
}

// Leader is what is seen of an election. The zero Leader is none.
type Leader struct {
	Name      string        // that it campaigned by
	Term      uint64        // its token; 0 if the store has none
	ExpiresIn time.Duration // until the next is elected unless it renews its lease
	Elected   bool          // there is a leader
}

// Leader returns who leads at this instant, the zero Leader if nobody does. Errors
// are those of [Client.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if e == nil {
		return Leader{}, errZeroLock
	}
	info, err := e.client.Inspect(ctx, e.key)
	if err != nil || len(info.Holders) == 0 {
		return Leader{}, err
	}
	h := info.Holders[0]
	return Leader{Name: h.Metadata, Term: h.Token, ExpiresIn: h.ExpiresIn, Elected: true}, nil
}

// The bounds of the time between two looks of Observe.
const (
	minObserve  = 100 * time.Millisecond
	maxObserve  = 3 * time.Second
	observePart = 10 // of the TTL
)

// Observe returns the leader there is, and then each other one: it looks once in a
// tenth of the TTL, but not more often than each 100 ms nor less than each 3 s, and
// ends with ctx. A change is a leader of another name or term, or that there is none.
// Who leads for less than that time may not be seen, and a loop that is slow sees the
// latest leader next. It takes no goroutine.
//
// A look that fails is told as an error, with the zero Leader. Whoever goes on then
// sees what the next one finds; after an error that looking again would not mend, such
// as those of a closed client or a store that shows nothing, there is no next one.
//
// What is observed may be over when it is seen. Nothing may rely on it: a request to
// a leader carries no promise that this is still the leader.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		seen := false
		for {
			now, err := e.Leader(ctx)
			if ctx != nil && ctx.Err() != nil {
				return
			}
			changed := !seen || now.Name != last.Name || now.Term != last.Term || now.Elected != last.Elected
			switch {
			case err != nil:
				if !yield(Leader{}, err) || ctx == nil || final(err) || errors.Is(err, errZeroLock) {
					return
				}
			case changed:
				last, seen = now, true
				if !yield(now, nil) {
					return
				}
			}
			if !e.rest(ctx) {
				return
			}
		}
	}
}

// rest waits until it is time for another look.
func (e *Election) rest(ctx context.Context) bool {
	timer := time.NewTimer(min(max(e.client.terms.TTL/observePart, minObserve), maxObserve))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
