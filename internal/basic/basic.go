// Package basic holds the few helpers that several packages of this module need.
package basic

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ErrNilContext is the answer to a nil context.
var ErrNilContext = errors.New("lock: the context is nil")

// Cause returns why ctx has ended, nil if it has not, and ErrNilContext for a nil ctx.
func Cause(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	return context.Cause(ctx)
}

// Sleep waits for d, or until ctx ends. It returns nil after d and ctx.Err() otherwise. A
// d of 0 or less returns nil at once, even if ctx has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Round returns d with as many digits as a message needs: whole milliseconds from a second
// on, and hundredths of a millisecond from a millisecond on.
func Round(d time.Duration) time.Duration {
	switch {
	case d.Abs() >= time.Second:
		return d.Round(time.Millisecond)
	case d.Abs() >= time.Millisecond:
		return d.Round(time.Millisecond / 100)
	}
	return d
}

// IsNil reports whether x is nil or holds a nil pointer, as after a constructor whose
// error was ignored.
func IsNil(x any) bool {
	v := reflect.ValueOf(x)
	return x == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// Quote returns a key as a quoted string for messages: binary bytes are escaped, and a
// key of more than 100 bytes is cut.
func Quote(key string) string {
	const most = 100
	if len(key) > most {
		return strconv.Quote(key[:most]) + "..."
	}
	return strconv.Quote(key)
}

// Unprefixed returns err without the name of package lock in front of its text, for use
// inside the text of another error.
func Unprefixed(err error) error { return unprefixed{err} }

type unprefixed struct{ err error }

func (e unprefixed) Error() string { return strings.TrimPrefix(e.err.Error(), "lock: ") }
func (e unprefixed) Unwrap() error { return e.err }

// Failed returns an error that names the failed operation of a store, or nil if err is nil. Its text leaves
// out the prefix of package lock, which adds the key.
func Failed(store, verb string, err error) error {
	if err == nil {
		return nil
	}
	return &failureError{store, verb, err}
}

// failureError makes its text when it is shown, because an outage makes very many failures at a time.
type failureError struct {
	store, verb string
	err         error
}

func (f *failureError) Error() string {
	return f.store + ": " + f.verb + ": " + Unprefixed(f.err).Error()
}

func (f *failureError) Unwrap() error { return f.err }
