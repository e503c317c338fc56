// The candidates: stores with servers of their own.

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// candidate is a store with a server of its own. The server has the durability that it has by
// default, whatever the tests set.
type candidate struct {
	name  string
	limit int // no more leases than this are measured; 0 means no limit
	start func(ctx context.Context) (*server, error)
}

// server is a running server.
type server struct {
	version string
	durable string                                                               // whether a change is on disk when it is answered
	network string                                                               // of addr
	addr    string                                                               // empty without a server
	connect func(addr string) (store driver.Store, disconnect func(), err error) // a store of its own for each client
	stop    func()
}

// errMissing is the reason to leave a store out.
var errMissing = errors.New("not installed")

// candidates returns all stores, in the order of the tables.
func candidates() []candidate {
	return []candidate{
		{name: "memory", start: startMemory},
		{name: "redis", start: startRedis},
		{name: "postgres", start: startPostgres},
		{name: "postgres-listen", limit: 1000, start: startListening}, // a Listener has no part in renewals
		{name: "mariadb", start: startMariaDB},
		{name: "sqlite", start: startSQLite},
		{name: "etcd", start: startEtcd},
		{name: "zookeeper", limit: 10_000, start: startZooKeeper}, // 100,000 need more memory than testzk gives its servers
		{name: "nats", start: startNATS},
	}
}

func startMemory(context.Context) (*server, error) {
	mem := memstore.New()
	return &server{
		version: "in this process",
		durable: "no",
		connect: func(string) (driver.Store, func(), error) { return shared{mem}, func() {}, nil },
		stop:    func() { _ = mem.Close() },
	}, nil
}

// shared is a store that several clients use, so none of them closes it.
type shared struct{ *memstore.Store }

// Close does nothing.
func (shared) Close() error { return nil }

func startRedis(ctx context.Context) (*server, error) {
	s, err := testredis.Launch("--save", "3600 1 300 100 60 10000")
	if err != nil {
		return nil, errors.Join(errMissing, err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = rdb.Close() }()
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		s.Close()
		return nil, err
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	version, _, _ = strings.Cut(version, "\r\n")
	return &server{version: "Redis " + version, durable: "no, snapshots", network: "tcp", addr: s.Addr(), connect: func(addr string) (driver.Store, func(), error) {
		rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: acquirers})
		store, err := redisstore.New(rdb, nil)
		return store, func() { _ = rdb.Close() }, err
	}, stop: s.Close}, nil
}
