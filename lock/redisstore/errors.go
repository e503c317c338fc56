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

// failureError says what could not be done with a key. Its text is made when somebody reads
// it; what package lock has a word for stands there without the name of that package.
type failureError struct {
	verb, key string
	err       error
}

func failed(verb, key string, err error) error { return &failureError{verb, key, err} }

func (e *failureError) Error() string {
	return "redisstore: " + e.verb + " " + quoted(e.key) + ": " + strings.TrimPrefix(e.err.Error(), "lock: ")
}

func (e *failureError) Unwrap() error { return e.err }

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
		case isNoAuth(refusal.Error()):
			err = fmt.Errorf("NOAUTH, the server wants a password: %w", err)
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

// isNoAuth recognizes what servers since Redis 6.2 say to a command that is too long to
// be looked at before it is known from whom it is.
func isNoAuth(refusal string) bool {
	return strings.HasPrefix(refusal, "ERR Protocol error: unauthenticated ")
}

// quoted makes a key fit for a message: binary bytes escaped, long keys cut.
func quoted(key string) string {
	const most = 100
	if len(key) > most {
		return strconv.Quote(key[:most]) + "..."
	}
	return strconv.Quote(key)
}
