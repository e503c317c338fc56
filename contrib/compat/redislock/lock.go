// Lock: its TTL, Refresh and Release.

package redislock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock is a lock that was obtained. It expires unless it is refreshed; nothing refreshes it in
// the background. It is safe for concurrent use.
type Lock struct {
	*Client // embedded because programs of bsm/redislock may call Obtain of a Lock

	keys     []string
	value    string
	tokenLen int
}

// Key returns the key in Redis, the first one of several.
func (l *Lock) Key() string { return l.keys[0] }

// Keys returns a copy of the keys in Redis, in the order of ObtainMulti.
func (l *Lock) Keys() []string { return slices.Clone(l.keys) }

// Token returns the token of the holder.
func (l *Lock) Token() string { return l.value[:l.tokenLen] }

// Metadata returns the metadata that Obtain has stored.
func (l *Lock) Metadata() string { return l.value[l.tokenLen:] }

// TTL returns the time until the first key of the lock expires, and 0 if a key has expired or another
// holder has it. The error is that of ctx or of go-redis, or ErrLockNotHeld if l is nil.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	if l == nil {
		return 0, ErrLockNotHeld
	}
	left, err := l.run(ctx, nil, remaining, l.value)
	return time.Duration(max(left, 0)) * time.Millisecond, err
}

// Refresh makes all keys of the lock expire after ttl, counted from now. That may be earlier than
// before. It changes none, and returns ErrNotObtained, if a key has expired, another holder has it,
// or l is nil. It refuses a ttl of less than a millisecond.
//
// After any other error, Refresh tries again as the RetryStrategy says, and returns the error of the
// last try. If ctx ends, the error is that of ctx, joined with the error of the try before. If ctx
// has no deadline, Refresh tries for one ttl at most. The other Options are not used.
func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, opt *Options) error {
	if l == nil {
		return ErrNotObtained
	}
	if err := cmp.Or(l.checkContext(ctx, l.keys), checkTTL(l.keys, ttl)); err != nil {
		return err
	}
	return withRetry(ctx, ttl, opt, func(ctx context.Context) (again bool, err error) {
		changed, err := l.run(ctx, nil, refresh, l.value, milliseconds(ttl))
		if err == nil && changed != 1 {
			return false, ErrNotObtained
		}
		return true, err
	})
}

// Release frees all keys of the lock. It frees none, and returns ErrLockNotHeld, if a key has expired,
// another holder has it, or l is nil. The server gets the request even if ctx has ended, but Release
// does not wait for the answer then.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return ErrLockNotHeld
	}
	if err := l.checkContext(ctx, l.keys); err != nil {
		return err
	}
	freed, err := inTime(ctx, func() (int64, error) { return l.send(context.WithoutCancel(ctx), release, l.value) }, nil)
	if err == nil && freed != 1 {
		err = ErrLockNotHeld
	}
	return err
}

// obtain is one try of ObtainMulti. It returns redis.Nil if a key is taken. With fresh the value is
// that of this call alone: what the server grants after ctx has ended, or without an answer, is
// released.
func (l *Lock) obtain(ctx context.Context, ttl time.Duration, fresh bool) error {
	undo := func() {
		if fresh {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
			defer cancel()
			_, _ = l.send(ctx, release, l.value)
		}
	}
	_, err := l.run(ctx, undo, obtain, l.value, l.tokenLen, milliseconds(ttl))
	return err
}

// run sends a script and returns its answer, or the error of ctx if that ends before. It sends
// nothing if ctx has ended already. For undo see inTime.
func (l *Lock) run(ctx context.Context, undo func(), script *redis.Script, args ...any) (int64, error) {
	if err := l.checkContext(ctx, l.keys); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return inTime(ctx, func() (int64, error) { return l.send(ctx, script, args...) }, undo)
}

// send sends a script. It may take longer than ctx, because a client of go-redis does not return
// when ctx ends while it waits for an answer.
func (l *Lock) send(ctx context.Context, script *redis.Script, args ...any) (int64, error) {
	return script.Run(ctx, l.redis, l.keys, args...).Int64()
}

var errExited = errors.New("redislock: the goroutine of the request has ended in the client")

// inTime returns the result of f, or the error of ctx if that ends before. If undo is not nil, it
// is called after an f that had no answer, or whose answer nobody waits for. inTime does not wait
// for undo, and neither f nor undo outlasts the timeouts of the client for long.
func inTime(ctx context.Context, f func() (int64, error), undo func()) (int64, error) {
	type result struct {
		answer int64
		err    error
	}
	results := make(chan result)
	go func() {
		r := result{err: errExited}
		defer func() {
			used := false
			select {
			case results <- r:
				used = true
			case <-ctx.Done():
			}
			granted := r.err == nil && !used
			if undo != nil && (granted || !isAnswer(r.err)) {
				undo()
			}
		}()
		r.answer, r.err = f()
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// isAnswer reports whether err comes from the server, or is nil.
func isAnswer(err error) bool {
	var answer redis.Error
	return err == nil || errors.As(err, &answer)
}
