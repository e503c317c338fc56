// A hook that counts commands.

package testredis

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Counter is a hook that counts the commands of clients by their second word, which names a script.
type Counter struct {
	mu       sync.Mutex // guards all below
	counts   map[string]int
	returned map[string]int
}

// Attach adds the hook to a client.
func (c *Counter) Attach(rdb *redis.Client) error {
	rdb.AddHook(c)
	return nil
}

// Count returns how often the hook has seen commands with that second word.
func (c *Counter) Count(word string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[word]
}

// Returned returns how many of them go-redis has returned from.
func (c *Counter) Returned(word string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.returned[word]
}

func (c *Counter) see(counts *map[string]int, cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *counts == nil {
		*counts = make(map[string]int)
	}
	for _, cmd := range cmds {
		if args := cmd.Args(); len(args) > 1 {
			switch word := args[1].(type) {
			case string:
				(*counts)[word]++
			case *string:
				(*counts)[*word]++
			}
		}
	}
}

// DialHook implements redis.Hook.
func (*Counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (c *Counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.see(&c.counts, cmd)
		defer c.see(&c.returned, cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *Counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.see(&c.counts, cmds...)
		defer c.see(&c.returned, cmds...)
		return next(ctx, cmds)
	}
}
