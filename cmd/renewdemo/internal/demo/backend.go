// The stores of the demo, with direct access to their data.

package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// Backend is a store with direct access to its data and its server.
type Backend struct {
	driver.Store
	Name       string                                         // of the store, for the output
	Delete     func(ctx context.Context, keys []string) error // removes locks without the knowledge of their holders
	CPU        func(ctx context.Context) time.Duration        // that the server has used; nil if it is not known
	Disconnect func()                                         // is called after the store was closed
}

// Stores are functions that open stores by the schemes of their URLs. A function gets the whole URL.
type Stores map[string]func(ctx context.Context, url string) (*Backend, error)

// otherSchemes are the schemes of the stores that only the program in the folder stores can open.
var otherSchemes = map[string]bool{
	"sqlite": true, "postgres": true, "postgresql": true, "mysql": true, "mariadb": true, "etcd": true, "zk": true,
}

// schemeOf returns the scheme of a URL, or "" for an address and for the path of a socket. The URL of
// a file has the form sqlite:path.
func schemeOf(url string) string {
	scheme, rest, found := strings.Cut(url, ":")
	if !found || !otherSchemes[scheme] && !strings.HasPrefix(rest, "//") {
		return ""
	}
	return scheme
}

// open returns the store that the flags select.
func open(ctx context.Context, c config) (*Backend, error) {
	if c.store == "" {
		return openMemory(), nil
	}
	if openStore := c.stores[schemeOf(c.store)]; openStore != nil {
		return openStore(ctx, c.store)
	}
	return openRedis(ctx, c.store)
}

func openMemory() *Backend {
	mem := memstore.New()
	return &Backend{
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
		return nil, errors.New("-store must be an address such as localhost:6379 or a URL such as redis://localhost:6379/0 or postgres://localhost/database")
	}
	return opts, nil
}

func openRedis(ctx context.Context, url string) (*Backend, error) {
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
	return &Backend{
		Store: store, Name: "Redis at " + opts.Addr,
		Delete: func(ctx context.Context, keys []string) error {
			pipe := rdb.Pipeline()
			for _, key := range keys {
				pipe.Del(ctx, "lw:{"+key+"}")
			}
			_, err := pipe.Exec(ctx)
			return err
		},
		CPU:        func(ctx context.Context) time.Duration { return serverCPU(ctx, rdb) },
		Disconnect: func() { _ = rdb.Close() },
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
