package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
)

var (
	errNilContext = errors.New("the context is nil")
	errZeroStore  = errors.New("the Store was not made by New")
)

// failed says what could not be done with a key.
func failed(verb, key string, err error) error {
	return fmt.Errorf("redisstore: %s %s: %w", verb, quoted(key), err)
}

// clean returns an error of go-redis as one of package lock if it is one, and
// without what must not be read in logs: servers repeat in some refusals what they
// were sent.
func (s *Store) clean(err error, owners ...string) error {
	var refusal redis.Error
	if errors.As(err, &refusal) {
		switch {
		case errors.Is(err, redis.Nil):
			return unexpected(nil)
		case isWrongType(refusal.Error()):
			return lock.ErrWrongType
		}
	}
	text := err.Error()
	shown, _, _ := strings.Cut(text, ", with args beginning with:")
	for _, secret := range slices.Concat(s.secrets, owners) {
		if secret != "" {
			shown = strings.ReplaceAll(shown, secret, "(secret)")
		}
	}
	if s.user != "" { // which may be as short as a letter
		shown = strings.ReplaceAll(shown, " "+s.user+" ", " (secret) ")
	}
	if shown == text {
		return err
	}
	return errors.New(shown) // the original could be unwrapped
}

// isWrongType recognizes the refusal of a script too, before which servers up to
// Redis 6 say where in the script it happened.
func isWrongType(refusal string) bool {
	return strings.HasPrefix(refusal, "WRONGTYPE ") || strings.Contains(refusal, ": WRONGTYPE ")
}

// quoted makes a key fit for a message: binary bytes escaped, long keys cut.
func quoted(key string) string {
	const most = 100
	if len(key) > most {
		return strconv.Quote(key[:most]) + "..."
	}
	return strconv.Quote(key)
}
