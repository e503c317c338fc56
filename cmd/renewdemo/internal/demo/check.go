// The flag -check.

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/redisstore"
)

const checkTimeout = 30 * time.Second

var errUnsafe = errors.New("the server is unsafe for locks")

// check prints what is unsafe for locks at the Redis server. It returns an error if anything
// is.
func check(ctx context.Context, c config, w io.Writer) error {
	opts, err := redisOptions(c.store)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("the check has taken longer than %v", checkTimeout))
	defer cancel()
	rdb := newClient(ctx, opts)
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	report, err := store.Check(ctx, &redisstore.CheckOptions{TTL: c.ttl})
	if len(report.Servers) > 0 {
		fmt.Fprintln(w, report)
	}
	switch {
	case err != nil:
		return err
	case !report.Safe():
		return errUnsafe
	}
	return nil
}

// newClient returns a client for the server or, if it is a node of a cluster, for the cluster.
func newClient(ctx context.Context, opts *redis.Options) redis.UniversalClient {
	rdb := redis.NewClient(opts)
	info, err := rdb.Info(ctx, "cluster").Result()
	if err != nil || !strings.Contains(info, "cluster_enabled:1") {
		return rdb
	}
	_ = rdb.Close()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
	})
}
