// This file is about the errors of a Client, and errors without secrets.

package redisconn

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

var (
	// ErrClosed is the error of every call that is running when the Client is closed,
	// and of every later call.
	ErrClosed = redisnode.ErrClosed

	// ErrWrongType is the error of a script when a key holds a value of another type.
	ErrWrongType = errors.New("the key has a value of another type")
)

// errNilReply is the error of a nil reply, which no script may return. It does not match
// redis.Nil, which means a missing key.
var errNilReply = errors.New("unexpected nil reply")

// errNoAuth replaces a refusal that says the same in the words of the protocol.
var errNoAuth = errors.New("NOAUTH, the server requires a password")

// secrets holds the texts that no error may show.
type secrets struct {
	password string
	user     string // removed only as a whole word, because it may be a single letter
}

// clean returns an error of go-redis without the secrets and the owners. Some error replies
// repeat the arguments of the command, and errors end up in logs.
func (s *secrets) clean(err error, owners ...string) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		switch {
		case errors.Is(err, redis.Nil):
			return errNilReply
		case redisnode.HasCode(reply, "WRONGTYPE"):
			return ErrWrongType
		case strings.HasPrefix(reply.Error(), "ERR Protocol error: unauthenticated "): // since Redis 6.2, for a long command
			return errNoAuth
		}
	}
	text := err.Error()
	shown, _, _ := strings.Cut(text, ", with args beginning with:")
	for _, secret := range slices.Concat([]string{s.password}, owners) {
		if secret != "" {
			shown = strings.ReplaceAll(shown, secret, "(secret)")
		}
	}
	if s.user != "" {
		shown = strings.ReplaceAll(shown, " "+s.user+" ", " (secret) ")
	}
	if shown == text {
		return err
	}
	return errors.New(shown) // do not wrap err, because Unwrap would show the secrets
}

// executedNothing reports whether err is the reply of a server that has executed nothing. Within a
// script, a server refuses the first write for one of the codes from OOM on, and none after it.
func executedNothing(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	for _, start := range []string{
		"LOADING ", "NOAUTH ", "WRONGPASS ", "DENIED ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "BUSY ", "CROSSSLOT ",
		"ERR max number of clients", "ERR unknown command", "ERR Protocol error: unauthenticated ",
	} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	if strings.HasPrefix(text, "NOPERM ") {
		return !strings.Contains(text, "script") // a command of the script may come after others
	}
	return slices.ContainsFunc([]string{"OOM", "MISCONF", "NOREPLICAS", "READONLY"}, func(code string) bool { return redisnode.HasCode(reply, code) })
}

// IsTryAgain reports whether err is a TRYAGAIN reply. A node sends it when the slot is being
// migrated and the node has only some of the script's keys. The script was not executed.
func IsTryAgain(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }
