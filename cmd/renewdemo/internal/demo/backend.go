// The stores of the demo, with direct access to their data.

package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// backend is a store with direct access to its data and its server.
type backend struct {
	driver.Store
	Name       string                                         // of the store, for the output
	Delete     func(ctx context.Context, keys []string) error // removes locks without the knowledge of their holders
	Disconnect func()                                         // is called after the store was closed
}

// open returns the store that the flags select.
func open(ctx context.Context, c config) (*backend, error) {
	if c.store == "" {
		return openMemory(), nil
	}
	return openRedis(ctx, c.store)
}

func openMemory() *backend {
	mem := memstore.New()
	return &backend{
		Store: mem, Name: "an in-memory store",
		Delete: func(_ context.Context, keys []string) error {
			for _, key := range keys {
				mem.Delete(key)
			}
			return nil
		},
		Disconnect: func() {},
	}
}

// redisOptions reads the address or URL of a Redis server. An address without a scheme is that of a TCP port
// or, if it starts with a slash, of a Unix socket.
func redisOptions(url string) (*redis.Options, error) {
	switch {
	case strings.HasPrefix(url, "/"):
		url = "unix://" + url
	case !strings.Contains(url, "://"):
		url = "redis://" + url
	}
	opts, err := redis.ParseURL(url)
	if err != nil { // err may show the password
		return nil, errors.New("-store must be an address such as localhost:6379 or a URL such as redis://localhost:6379/0")
	}
	return opts, nil
}

func openRedis(ctx context.Context, url string) (*backend, error) {
	opts, err := redisOptions(url)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("no Redis server at %s: %w", opts.Addr, err)
	}
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return &backend{
		Store: store, Name: "Redis at " + opts.Addr,
		Delete: func(ctx context.Context, keys []string) error {
			pipe := rdb.Pipeline()
			for _, key := range keys {
				pipe.Del(ctx, "lw:{"+key+"}")
			}
			_, err := pipe.Exec(ctx)
			return err
		},
		Disconnect: func() { _ = rdb.Close() },
	}, nil
}
