// Package observe is shared by the plugins for metrics: it combines hooks, names errors and losses, and
// keeps one value for each kind and name of lock.
package observe

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// The reasons of losses.
const (
	NotOwned     = "not_owned"
	Failed       = "failed"
	Expired      = "expired"
	LimitReached = "limit_reached"
)

// Reasons are all reasons of losses.
var Reasons = []string{NotOwned, Failed, Expired, LimitReached}

// Loss is why a lease was lost.
type Loss struct {
	Reason string
	Cause  string
	Left   float64 // seconds that the holder had left, at least 0
	Known  bool    // Left is known
}

// LossOf returns the loss that the error of a hook describes.
func LossOf(err error) Loss {
	var lost *renewal.LostError
	if !errors.As(err, &lost) {
		return Loss{Reason: NotOwned, Cause: renewal.CauseUnknown.String()}
	}
	l := Loss{Reason: NotOwned, Cause: lost.Cause().String(), Left: max(lost.Left.Seconds(), 0)}
	switch lost.Reason {
	case renewal.ReasonFailed:
		l.Reason = Failed
	case renewal.ReasonExpired:
		l.Reason = Expired
	case renewal.ReasonLimitReached:
		l.Reason = LimitReached
	}
	l.Known = l.Reason != NotOwned
	return l
}

// End returns how the lock ended: lost, or by its terms.
func (l Loss) End() string {
	if l.Reason == LimitReached {
		return LimitReached
	}
	return string(lock.OutcomeLost)
}

// The types of the errors of a store.
const (
	Timeout     = "timeout"
	Unavailable = "unavailable"
)

// ErrorType returns the type of the error of a call. other is that of an error without a type.
func ErrorType(err error, other string) string {
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		return BatchError(err)
	case errors.Is(err, lock.ErrTooMany):
		return "too_many"
	case errors.Is(err, lock.ErrClosed):
		return "closed"
	case errors.Is(err, lock.ErrWrongType):
		return "wrong_type"
	}
	return other
}

// AcquireError returns the type of the error of a Lock or TryLock, or "". That a lock is taken is
// no error, and neither is the end of the wait.
func AcquireError(i lock.HookInfo, other string) string {
	switch i.Outcome {
	case lock.OutcomeHeldByOther, lock.OutcomeWaitLimit, lock.OutcomeCanceled:
		return ""
	}
	return ErrorType(i.Err, other)
}

// BatchError returns the type of the error of a batch of renewals: Timeout if the store does not
// answer in time, Unavailable if it fails, "" if there is none.
func BatchError(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	}
	return Unavailable
}

// Engine is a timer engine whose counters are exported.
type Engine struct {
	Label string
	Stats func() schedule.Stats
}

// EngineOf returns the engine behind a Scheduler, or nil if it has no Stats.
func EngineOf(s schedule.Scheduler) *Engine {
	counting, ok := s.(interface{ Stats() schedule.Stats })
	if !ok {
		return nil
	}
	e := &Engine{Label: "other", Stats: counting.Stats}
	switch s.(type) {
	case *wheel.Wheel:
		e.Label = "wheel"
	case *heapqueue.Scheduler:
		e.Label = "heap"
	}
	return e
}

// Instrument returns a copy of the options in which each hook calls the given one and then the one of
// the options. Only Acquiring and Releasing of hooks may be nil. A nil *lock.Options means the defaults.
func Instrument(o *lock.Options, hooks lock.Hooks) *lock.Options {
	if o == nil {
		o = new(lock.Options)
	}
	opts := *o
	user := lock.Hooks{}
	if o.Hooks != nil {
		user = *o.Hooks
	}
	opts.Hooks = &lock.Hooks{
		Acquiring: inside(hooks.Acquiring, user.Acquiring),
		Releasing: inside(hooks.Releasing, user.Releasing),
		Waiting:   both(hooks.Waiting, user.Waiting),
		Acquired:  both(hooks.Acquired, user.Acquired),
		Refused:   both(hooks.Refused, user.Refused),
		Released:  both(hooks.Released, user.Released),
		Lost:      both(hooks.Lost, user.Lost),
		BatchDone: func(i renewal.BatchInfo) {
			hooks.BatchDone(i)
			if user.BatchDone != nil {
				user.BatchDone(i)
			}
		},
	}
	return &opts
}

// both returns a hook that calls first and then second, which may be nil.
func both(first, second func(context.Context, lock.HookInfo)) func(context.Context, lock.HookInfo) {
	if second == nil {
		return first
	}
	return func(ctx context.Context, i lock.HookInfo) {
		first(ctx, i)
		second(ctx, i)
	}
}

// inside returns a hook that calls second with the context of first. One of them may be nil.
func inside(first, second func(context.Context, lock.HookInfo) context.Context) func(context.Context, lock.HookInfo) context.Context {
	if first == nil || second == nil {
		if first == nil {
			return second
		}
		return first
	}
	return func(ctx context.Context, i lock.HookInfo) context.Context {
		ctx = first(ctx, i)
		if made := second(ctx, i); made != nil {
			return made
		}
		return ctx
	}
}

// Key selects the series of locks.
type Key struct {
	Kind lock.Kind
	Name string // "" without a Namer
}

// Series has what all locks of one kind and name share. Making it each time would cost more than
// counting.
type Series[S any] struct {
	namer func(key string) string
	build func(Key) *S

	mu   sync.RWMutex // guards made
	made map[Key]*S
}

// NewSeries returns an empty Series. namer may be nil; build may be called twice for a key, and one
// of the results is used.
func NewSeries[S any](namer func(key string) string, build func(Key) *S) *Series[S] {
	return &Series[S]{namer: namer, build: build, made: map[Key]*S{}}
}

// Named reports whether there is a Namer.
func (s *Series[S]) Named() bool { return s.namer != nil }

// Key returns the key of a lock. Its Name is valid UTF-8.
func (s *Series[S]) Key(i lock.HookInfo) Key {
	key := Key{Kind: i.Kind}
	if s.namer != nil {
		key.Name = strings.ToValidUTF8(s.namer(i.Key), "\uFFFD")
	}
	return key
}

// Of returns what the locks with the key share.
func (s *Series[S]) Of(key Key) *S {
	s.mu.RLock()
	found := s.made[key]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	one := s.build(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.made[key]; other != nil { // another goroutine was faster
		return other
	}
	s.made[key] = one
	return one
}
