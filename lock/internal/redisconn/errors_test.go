package redisconn

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

func TestErrorsKeepTheirKindWithoutSecrets(t *testing.T) {
	c := &Client{secrets: secrets{password: "lock"}, tls: true} // a common word, which texts of errors contain
	assert.ErrorIs(t, c.explain(redis.ErrNoScript, nil), redis.ErrNoScript)
	assert.ErrorIs(t, c.explain(io.EOF, nil, "owner", ""), io.EOF)
	assert.NotErrorIs(t, c.explain(redis.Nil, nil), redis.Nil, "every script returns a value")

	hidden := c.explain(fmt.Errorf("lock: %w of owner", net.ErrClosed), nil, "owner")
	assert.Equal(t, "(secret): use of closed network connection of (secret)", hidden.Error())
	assert.ErrorIs(t, hidden, net.ErrClosed)
	assert.NotContains(t, fmt.Sprintf("%#v", fmt.Errorf("%w", hidden)), "owner")
	var refusal redis.Error
	assert.ErrorAs(t, c.explain(replyError("OOM lock"), nil), &refusal)
	assert.EqualError(t, refusal, "OOM (secret)")
}

// A password is hidden where the server repeats it, and not within other words, where the gaps would tell it.
func TestAPasswordIsHiddenAsAWord(t *testing.T) {
	for _, c := range []struct{ text, password, want string }{
		{"replicas of p", "p", "replicas of (secret)"},
		{"'p' 'up' p", "p", "'(secret)' 'up' (secret)"},
		{"AUTH 'a+b'a+b", "a+b", "AUTH '(secret)'(secret)"},
		{"x+ +x +", "+", "x(secret) (secret)x (secret)"},
		{"püp p", "p", "püp (secret)"},
		{"pp p pp", "pp", "(secret) p (secret)"},
		{"nothing", "", "nothing"},
	} {
		assert.Equal(t, c.want, hideWord(c.text, c.password), c.text)
	}
	s := secrets{password: "password"}
	const refusal = "WRONGPASS invalid username-password pair or user is disabled."
	assert.EqualError(t, s.clean(replyError(refusal)), refusal, "a gap would tell it")
}

// A server may close the connection of a client without a password before its refusal is read.
func TestARefusedLoginExplainsAClosedConnection(t *testing.T) {
	c := &Client{tls: true}
	assert.Equal(t, io.EOF, c.explain(io.EOF, nil))
	const refusal = "NOAUTH Authentication required; set Password in the options of the client, or in the URL"
	assert.EqualError(t, c.explain(replyError("ERR Protocol error: unauthenticated multibulk length"), nil), refusal)
	for _, closed := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE} {
		assert.EqualError(t, c.explain(&net.OpError{Op: "read", Err: closed}, nil), refusal)
	}
	assert.EqualError(t, c.explain(context.DeadlineExceeded, nil), "context deadline exceeded", "no connection was closed")
	c.noteAnswer()
	assert.Equal(t, io.EOF, c.explain(io.EOF, nil), "the server has answered since")
}

// Servers name a missing command, and a missing right to one, in their own words.
func TestRefusalsOfTheForks(t *testing.T) {
	for reply, want := range map[string]string{
		"ERR unknown command 'zadd', with args beginning with: 'k'":     UnknownCommand,
		"ERR Unknown Redis command called from script script: 1a":       UnknownCommand,
		"ERR Unknown Redict command called from script script: 1a":      UnknownCommand,
		"NOPERM User a has no permissions to run the 'zadd' command":    NoPermission,
		"WRONGTYPE Operation against a key holding the wrong kind of v": "",
	} {
		assert.Equal(t, want, Refusal(reply), reply)
	}
}
