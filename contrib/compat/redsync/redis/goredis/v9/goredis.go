// Package goredis makes pools for package redsync from clients of go-redis v9.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	"github.com/leasewheel/leasewheel/internal/basic"
)

// NewPool returns a pool of the connections of a client: of one server, Sentinel, a cluster or a
// ring. It does no IO. The pool holds nothing of its own, so there is nothing to close but the
// client. The pool is safe for concurrent use.
func NewPool(delegate goredis.UniversalClient) redis.Pool { return pool{delegate} }

// pool implements redis.Pool.
type pool struct{ client goredis.UniversalClient }

var errNilClient = errors.New("goredis: the client of the pool is nil")

// Get implements redis.Pool. It does no IO: go-redis takes a connection for each command.
func (p pool) Get(ctx context.Context) (redis.Conn, error) {
	if basic.IsNil(p.client) {
		return nil, errNilClient
	}
	if ctx == nil {
		ctx = context.Background()
	}
	return conn{p.client, ctx}, nil
}

// conn implements redis.Conn.
type conn struct {
	client goredis.UniversalClient
	ctx    context.Context // the interface gives a connection its context
}

func (c conn) Get(name string) (string, error) {
	value, err := c.client.Get(c.ctx, name).Result()
	return value, withoutNil(err)
}

func (c conn) Set(name string, value string) (bool, error) {
	status, err := c.client.Set(c.ctx, name, value, 0).Result()
	return status == "OK", err
}

func (c conn) SetNX(name string, value string, expiry time.Duration) (bool, error) {
	return c.client.SetNX(c.ctx, name, value, expiry).Result()
}

func (c conn) Eval(script *redis.Script, keysAndArgs ...any) (any, error) {
	if len(keysAndArgs) < script.KeyCount {
		return nil, fmt.Errorf("goredis: %d values for a script with %d keys", len(keysAndArgs), script.KeyCount)
	}
	keys := make([]string, max(script.KeyCount, 0))
	for i := range keys {
		key, ok := keysAndArgs[i].(string)
		if !ok {
			return nil, fmt.Errorf("goredis: key %d of a script is a %T, not a string", i, keysAndArgs[i])
		}
		keys[i] = key
	}
	args := keysAndArgs[len(keys):]
	reply, err := c.client.EvalSha(c.ctx, script.Hash, keys, args...).Result()
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = c.client.Eval(c.ctx, script.Src, keys, args...).Result()
	}
	return reply, withoutNil(err)
}

func (c conn) ScriptLoad(script *redis.Script) error {
	hash, err := c.client.ScriptLoad(c.ctx, script.Src).Result()
	if err != nil {
		return err
	}
	script.Hash = hash
	return nil
}

func (c conn) PTTL(name string) (time.Duration, error) { return c.client.PTTL(c.ctx, name).Result() }

// Close does nothing: go-redis has taken its connections back already.
func (conn) Close() error { return nil }

// withoutNil returns err, or nil for the nil reply of the server.
func withoutNil(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
