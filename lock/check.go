package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// The bounds of what a client accepts.
const (
	MaxKeyLen = 1024                   // bytes in a key
	MinTTL    = 100 * time.Millisecond // shorter leases leave no time to tell the holder
	MaxTTL    = 365 * 24 * time.Hour   // longer ones would outlive everybody who knows of them

	MaxMetadataLen = 1024 // bytes in the metadata of a lock
)

// checkKey names what is wrong with a key. Keys may hold any bytes and are never
// changed. A leading '}' is refused because it would empty the hash tag that keeps
// the parts of a lock on one node of a Redis cluster.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: %s is %d bytes long, the limit is %d", ErrBadKey, quoted(key), len(key), MaxKeyLen)
	case key[0] == '}':
		return fmt.Errorf("%w: %s begins with '}'", ErrBadKey, quoted(key))
	}
	return nil
}

// checkTTL names what is wrong with a TTL.
func checkTTL(field string, ttl time.Duration) error {
	switch {
	case ttl < MinTTL:
		return fmt.Errorf("%w: %s must be at least %v, got %v", ErrBadTTL, field, MinTTL, ttl)
	case ttl > MaxTTL:
		return fmt.Errorf("%w: %s must be at most %v, got %v", ErrBadTTL, field, MaxTTL, ttl)
	}
	return nil
}

// isNil tells whether an interface holds nothing, or a nil pointer: what is left of a
// constructor whose error nobody looked at.
func isNil(x any) bool {
	v := reflect.ValueOf(x)
	return x == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

var errNilContext = errors.New("lock: the context is nil")

// endOf returns why ctx has ended, nil if it has not. A nil ctx is as good as ended.
func endOf(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return context.Cause(ctx)
}
