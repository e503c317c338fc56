// The adapters of this project.

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

const ours = "leasewheel"

func leasewheelCandidates() []*candidate {
	return []*candidate{
		{name: ours, store: redisServer, modules: goredisOnly, renews: true, open: openOurs(oursOnRedis), lockKey: oursKey},
		{name: ours + " on 3 Redis", store: redisServers, modules: goredisOnly, renews: true, open: openOurs(oursOnThree), lockKey: oursKey},
		{name: ours + " on PostgreSQL", store: postgresServer, modules: pgxModules, renews: true, open: openOurs(oursOnPostgres), note: "without LISTEN, as by default"},
		{name: ours + " on PostgreSQL with LISTEN", store: postgresServer, modules: pgxModules, renews: true, open: openOurs(oursOnListeningPostgres), note: "with a Listener of pglisten"},
		{name: ours + " on etcd", store: etcdServer, modules: etcdModules, renews: true, open: openOurs(oursOnEtcd)},
		{name: ours + " on ZooKeeper", store: zooKeeperServer, modules: []string{"github.com/go-zookeeper/zk"}, renews: true, open: openOurs(oursOnZooKeeper), pattern: nodeName, note: "sessions of 4 s, the shortest for this lease"},
	}
}

// nodeName returns the name that the store on ZooKeeper gives the node of a lock.
func nodeName(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

var goredisOnly = []string{"github.com/redis/go-redis/v9"}

const oursKey = "lw:{%s}"

// openOurs returns the opener of a store.
func openOurs(store func(ctx context.Context, addrs []string) (driver.Store, error)) opener {
	return func(ctx context.Context, addrs []string) (acquirer, error) {
		s, err := store(ctx, addrs)
		if err != nil {
			return nil, err
		}
		c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: lease}, Logger: slog.New(slog.DiscardHandler)})
		return func(ctx context.Context, key string) (*grant, error) {
			h, err := c.Mutex(key).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return &grant{h.Valid, h.Token(), func(ctx context.Context) error {
				if err := h.Unlock(ctx); !errors.Is(err, lock.ErrLost) { // a loss is no failure of the release
					return err
				}
				return nil
			}}, nil
		}, err
	}
}

func oursOnRedis(_ context.Context, addrs []string) (driver.Store, error) {
	return redisstore.New(redis.NewClient(&redis.Options{Addr: addrs[0]}), nil)
}

func oursOnThree(ctx context.Context, addrs []string) (driver.Store, error) {
	var all []driver.Store
	for _, a := range addrs {
		s, err := oursOnRedis(ctx, []string{a})
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return quorumstore.New(all...)
}
