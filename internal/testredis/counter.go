// Hooks of clients: the type hook, and one that counts commands.

package testredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Counter counts the commands of clients by their second word, which names a script.
type Counter struct {
	mu       sync.Mutex // guards all below
	counts   map[string]int
	returned map[string]int
}

// Attach begins to count the commands of a client.
func (c *Counter) Attach(rdb *redis.Client) error {
	rdb.AddHook(hook{
		before: func(cmds []redis.Cmder) { c.see(&c.counts, cmds) },
		after:  func(cmds []redis.Cmder) { c.see(&c.returned, cmds) },
	})
	return nil
}

// Count returns how often it has seen commands with that second word.
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

func (c *Counter) see(counts *map[string]int, cmds []redis.Cmder) {
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

// hook is a redis.Hook that sees commands before and after they are sent.
type hook struct{ before, after func(cmds []redis.Cmder) }

// DialHook implements redis.Hook.
func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.before([]redis.Cmder{cmd})
		defer h.after([]redis.Cmder{cmd})
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.before(cmds)
		defer h.after(cmds)
		return next(ctx, cmds)
	}
}
