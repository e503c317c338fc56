package redisstore

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// endingWith returns a dialer that gives up when life ends: go-redis dials on its own,
// for up to a second, and its Close does not end that.
func endingWith(life context.Context, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return dial(ctx, network, addr)
	}
}

// uncounted returns a dialer that never fails, for go-redis counts that: after as many
// failures as a pool has connections, however long ago, it refuses all requests at
// once, and looks for the server once a second. So the next renewal would fail too,
// though the server is back. What fails is the first write to the connection instead.
func uncounted(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			inert, _ := net.Pipe()                                            // which can be closed, and takes deadlines
			return undialed{inert, fmt.Errorf("no connection: %w", err)}, nil // go-redis unwraps it
		}
		return conn, nil
	}
}

// undialed stands in for a connection that could not be made.
type undialed struct {
	net.Conn
	err error
}

// Read implements net.Conn.
func (u undialed) Read([]byte) (int, error) { return 0, u.err }

// Write implements net.Conn.
func (u undialed) Write([]byte) (int, error) { return 0, u.err }

// SyscallConn implements syscall.Conn: go-redis, which asks for it before it uses an idle
// connection, is to drop one that nobody has waited for.
func (u undialed) SyscallConn() (syscall.RawConn, error) { return nil, u.err }

// whileWanted refuses a new connection that nobody waits for any more: go-redis would
// send the request that it was made for, without a look at the ctx.
func whileWanted(life context.Context, then func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		if then != nil {
			ctx, cancel := ending(ctx, life)
			defer cancel()
			if err := then(ctx, conn); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

// ending returns a ctx for a function of the user, which may wait for its end: those that
// go-redis is given name a deadline, and need not end then. It ends with life, too.
func ending(ctx, life context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stop := context.AfterFunc(life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
