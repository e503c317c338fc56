// This file is about the error replies of servers, and errors without secrets.

package redisconn

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
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
		case hasCode(reply, "WRONGTYPE"):
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

// hasCode reports whether an error reply has a code. Servers up to Redis 6 put the position in the script,
// and for some codes a dash, before the code.
func hasCode(reply redis.Error, code string) bool {
	text := reply.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, ": "+code+" ") || strings.Contains(text, ": -"+code+" ")
}

// IsTryAgain reports whether err is a TRYAGAIN reply. A node sends it when the slot is being
// migrated and the node has only some of the script's keys. The script was not executed.
func IsTryAgain(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }
