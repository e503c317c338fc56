// The candidates: stores with servers of their own.

package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// candidate is a store with a server of its own. The server has the durability that it has by
// default, whatever the tests set.
type candidate struct {
	name    string
	durable string // whether a change is on disk when it is answered
	limit   int    // no more leases than this are measured; 0 means no limit
	start   func(ctx context.Context) (*server, error)
}

// server is a running server.
type server struct {
	version string
	network string                                                               // of addr
	addr    string                                                               // empty without a server
	connect func(addr string) (store driver.Store, disconnect func(), err error) // a store of its own for each client
	stop    func()
}

// errMissing is the reason to leave a store out.
const errMissing = bench.OutcomeError("not installed")

// candidates returns all stores, in the order of the tables.
func candidates() []candidate {
	return []candidate{
		{name: "memory", durable: "no", start: startMemory},
		{name: "redis", durable: "no, snapshots", start: startRedis},
		{name: "postgres", durable: "yes", start: startPostgres},
		{name: "postgres-listen", durable: "yes", limit: 1000, start: startListening}, // a Listener has no part in renewals
		{name: "mariadb", durable: "yes", start: startMariaDB},
		{name: "mysql", durable: "yes", start: startMySQL},
		{name: "sqlite", durable: "yes", start: startSQLite},
		{name: "etcd", durable: "yes", start: startEtcd},
		{name: "zookeeper", durable: "yes", limit: 10_000, start: startZooKeeper}, // 100,000 need more memory than testzk gives its servers
		{name: "nats", durable: "no, every 2 min", start: startNATS},
	}
}

func startMemory(context.Context) (*server, error) {
	mem := memstore.New()
	return &server{
		version: "in this process",
		connect: func(string) (driver.Store, func(), error) { return shared{mem}, func() {}, nil },
		stop:    func() { _ = mem.Close() },
	}, nil
}

// shared is a store that several clients use, so none of them closes it.
type shared struct{ *memstore.Store }

// Shutdown does nothing.
func (shared) Shutdown(context.Context) error { return nil }

func startRedis(ctx context.Context) (*server, error) {
	s, err := testredis.Launch("--save", "3600 1 300 100 60 10000")
	if err != nil {
		return nil, errors.Join(errMissing, err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = rdb.Close() }()
	info, err := bench.Info(ctx, rdb, "server")
	if err != nil {
		s.Close()
		return nil, err
	}
	return &server{version: "Redis " + info["redis_version"], network: "tcp", addr: s.Addr(), connect: func(addr string) (driver.Store, func(), error) {
		rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: acquirers})
		store, err := redisstore.New(rdb, nil)
		return store, func() { _ = rdb.Close() }, err
	}, stop: s.Close}, nil
}
