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

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// backend is a store and what the demo does behind its back.
type backend struct {
	lock.Store
	io.Closer
	name   string
	delete func(ctx context.Context, keys []string) error
	cpu    func(ctx context.Context) time.Duration // of the server; nil: there is none
	close  func()
}

// open returns the store that the flags ask for.
func open(ctx context.Context, c config) (*backend, error) {
	if c.redis == "" {
		mem := memstore.New()
		return &backend{
			Store: mem, Closer: mem, name: "a store in memory",
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

func openRedis(ctx context.Context, url string) (*backend, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("-redis is not a valid URL of a Redis server") // the error would show the password
	}
	rdb := redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("no answer from Redis at %s: %w", opts.Addr, err)
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
