package redisnode

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// shared is the server of all tests that leave no trace on it.
var shared testredis.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(m))
}

const (
	soon = 5 * time.Second  // enough for something that happens at once, on a busy machine
	long = 25 * time.Second // longer than a test runs
)

// echo is a script that returns its key.
var echo = NewScript("return KEYS[1]")

// client has one node, and ends when the test ends.
type client struct {
	*Calls
	node *Node
}

func newClient(t testing.TB, rdb *redis.Client, o Options) *client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = long
	}
	if o.PoolSize == 0 {
		o.PoolSize = 16
	}
	cs := NewCalls()
	n, err := New(cs, 0, *Derive(rdb.Options()), o)
	require.NoError(t, err)
	c := &client{cs, n}
	t.Cleanup(func() { assert.NoError(t, closeClient(c)) })
	return c
}

func closeClient(c *client) error {
	if !c.Cancel() {
		return nil
	}
	err := c.node.Close()
	c.Wait()
	return err
}

// runEcho runs echo once.
func runEcho(ctx context.Context, c *client, key string) error {
	if err := c.Begin(ctx); err != nil {
		return err
	}
	defer c.End()
	a := c.node.Run(ctx, echo, time.Now().Add(c.node.timeout), false, []any{nil, nil, 1, &key})
	if a.Err != nil {
		return c.Reason(ctx, a.Err)
	}
	return nil
}

// send sends a batch.
func (c *client) send(ctx context.Context, b *Batch) error {
	if err := c.Begin(ctx); err != nil {
		return err
	}
	defer c.End()
	if err := c.node.Send(ctx, b); err != nil {
		return c.Reason(ctx, err)
	}
	return nil
}

// sendBatch sends echo n times in one Batch and returns the first error.
func sendBatch(ctx context.Context, c *client, key string, n int) error {
	var b Batch
	for range n {
		args := b.Add(echo, 4)
		args[2], args[3] = 1, &key
	}
	if err := c.send(ctx, &b); err != nil {
		return err
	}
	defer b.Reset()
	for i := range n {
		if _, err := b.Reply(i); err != nil {
			return err
		}
	}
	return nil
}
