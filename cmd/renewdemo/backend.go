package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
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
	io.Closer
	name   string
	delete func(ctx context.Context, keys []string) error
	cpu    func(ctx context.Context) time.Duration // of the server; nil if there is none
	close  func()
}

// open returns the store that the flags select.
func open(ctx context.Context, c config) (*backend, error) {
	if c.redis == "" {
		mem := memstore.New()
		return &backend{
			Store: mem, Closer: mem, name: "an in-memory store",
			delete: func(_ context.Context, keys []string) error {
				for _, key := range keys {
					mem.Delete(key)
				}
				return nil
			},
			close: func() {},
		}, nil
	}
	return openRedis(ctx, c.redis)
}

// redisOptions reads the value of -redis. An address without a scheme is that of a TCP port
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
		return nil, errors.New("-redis must be an address such as localhost:6379 or a URL such as redis://localhost:6379/0")
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
		Store: store, Closer: store, name: "Redis at " + opts.Addr,
		delete: func(ctx context.Context, keys []string) error {
			pipe := rdb.Pipeline()
			for _, key := range keys {
				pipe.Del(ctx, "lw:{"+key+"}")
			}
			_, err := pipe.Exec(ctx)
			return err
		},
		cpu:   func(ctx context.Context) time.Duration { return serverCPU(ctx, rdb) },
		close: func() { _ = rdb.Close() },
	}, nil
}

// serverCPU returns the CPU time that the server has used so far.
func serverCPU(ctx context.Context, rdb *redis.Client) time.Duration {
	var total float64
	for line := range strings.Lines(rdb.Info(ctx, "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}
