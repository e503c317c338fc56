package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// noDial is the key of a context value that forbids dialing.
type noDial struct{}

var errNoDial = errors.New("the connection has ended")

// WithoutDial returns a context with which go-redis does not dial again after a connection
// has failed.
func WithoutDial(ctx context.Context) context.Context { return context.WithValue(ctx, noDial{}, true) }

// hideDialErrors returns a dialer that never fails. The first write to the connection fails
// instead. The reason is that go-redis counts failed dials over the life of a pool. When
// the count reaches the pool size, go-redis refuses all requests and dials once a second.
// The next renewal would then fail although the server is back.
func hideDialErrors(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			var refusal redis.Error
			if errors.As(err, &refusal) { // an error reply of the server needs no prefix
				err = refusedDialError{refusedDialError{refusal}} // go-redis unwraps it once
			} else {
				err = fmt.Errorf("no connection: %w", dialError{err}) // go-redis unwraps it once
			}
			inert, _ := net.Pipe() // supports Close and deadlines
			return failedConn{inert, err}, nil
		}
		return conn, nil
	}
}

// dialError and refusedDialError are errors of dials, so no request was sent. The second
// one is an error reply to the handshake.
type (
	dialError        struct{ error }
	refusedDialError struct{ refusal redis.Error }
)

func (e dialError) Unwrap() error { return e.error }

func (e refusedDialError) Error() string { return e.refusal.Error() }
func (e refusedDialError) RedisError()   {} // it is a redis.Error
func (e refusedDialError) Unwrap() error { return e.refusal }

// isUnsent reports whether a request was not sent because there was no connection.
func isUnsent(err error) bool {
	return errors.As(err, new(dialError)) || errors.As(err, new(refusedDialError))
}

// failedConn takes the place of a connection after a failed dial. Each Read and Write
// returns the error of the dial.
type failedConn struct {
	net.Conn
	err error
}

// Read implements net.Conn.
func (u failedConn) Read([]byte) (int, error) { return 0, u.err }

// Write implements net.Conn.
func (u failedConn) Write([]byte) (int, error) { return 0, u.err }

// SyscallConn implements syscall.Conn. go-redis calls it before it uses an idle connection.
// The error makes go-redis drop the connection.
func (u failedConn) SyscallConn() (syscall.RawConn, error) { return nil, u.err }
