package redisconn

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
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
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
var echo = redisnode.NewScript("return KEYS[1]")

// newClient returns a client that is closed when the test ends.
func newClient(t testing.TB, rdb redis.UniversalClient, o Options) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = long
	}
	if o.PoolSize == 0 {
		o.PoolSize = 16
	}
	c, err := New(rdb, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, closeClient(c)) })
	return c
}

func closeClient(c *Client) error {
	if !c.Cancel() {
		return nil
	}
	err := c.Close()
	c.Wait()
	return err
}

// runEcho runs echo once.
func runEcho(ctx context.Context, c *Client, key string) error {
	_, err := c.Run(ctx, echo, "", []any{nil, nil, 1, &key})
	return err
}

// sendBatch sends echo n times in one Batch and returns the first error.
func sendBatch(ctx context.Context, c *Client, key string, n int) error {
	node, err := c.Master(ctx, SlotOf(key))
	if err != nil {
		return err
	}
	var b Batch
	for range n {
		args := b.Add(echo, 4)
		args[2], args[3] = 1, &key
	}
	if err := c.Send(ctx, node, &b); err != nil {
		return err
	}
	defer b.Reset()
	for i := range n {
		if _, err := b.Reply(i); err != nil {
			return c.Explain(ctx, err)
		}
	}
	return nil
}
