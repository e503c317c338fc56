// The servers of one round, and what can happen to them.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// The kinds of servers.
const (
	redisServer  = "Redis"
	redisServers = "3 × Redis"

	postgresServer  = "PostgreSQL"
	etcdServer      = "etcd"
	zooKeeperServer = "ZooKeeper"
)

// servers are those of one round.
type servers interface {
	addrs() []string

	// hang makes the first server stand still until resume. Its connections stay open.
	hang() error
	resume() error

	// restart ends all servers as a crash does, and starts them as they start then: Redis, which keeps
	// nothing by default, is empty.
	restart() error

	// loseReplica gives the first server a replica that gets nothing from now on. failOver then replaces
	// the server by it and returns its address.
	loseReplica(ctx context.Context) error
	failOver() (addr string, err error)

	// left returns the names of the keys that have the text, and how long each lasts.
	left(ctx context.Context, text string) (map[string]time.Duration, error)

	close()
}

func startServers(kind string) (servers, error) {
	switch kind {
	case redisServer:
		return startRedis(1)
	case redisServers:
		return startRedis(3)
	case postgresServer, etcdServer, zooKeeperServer:
		return spareServers(kind)
	}
	return nil, fmt.Errorf("unknown kind of servers %q", kind)
}

type redisGroup struct {
	list    []*testredis.Server
	replica *testredis.Server
}

func startRedis(n int) (servers, error) {
	g := &redisGroup{}
	for range n {
		s, err := testredis.Launch()
		if err != nil {
			g.close()
			return nil, err
		}
		g.list = append(g.list, s)
	}
	return g, nil
}

func (g *redisGroup) addrs() (all []string) {
	for _, s := range g.list {
		all = append(all, s.Addr())
	}
	return all
}

func (g *redisGroup) hang() error   { return g.list[0].Stop() }
func (g *redisGroup) resume() error { return g.list[0].Cont() }

func (g *redisGroup) restart() error {
	for _, s := range g.list {
		if err := s.Restart(); err != nil {
			return err
		}
	}
	return nil
}

func (g *redisGroup) loseReplica(ctx context.Context) error {
	s, err := testredis.Launch()
	if err != nil {
		return err
	}
	g.replica = s
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = rdb.Close() }()
	host, port, err := net.SplitHostPort(g.list[0].Addr())
	if err != nil {
		return err
	}
	if err := rdb.ReplicaOf(ctx, host, port).Err(); err != nil {
		return err
	}
	for end := time.Now().Add(answerTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		info, err := rdb.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return rdb.ReplicaOf(ctx, "NO", "ONE").Err()
		}
	}
	return errors.New("the replica has not connected")
}

func (g *redisGroup) failOver() (string, error) {
	g.list[0].Kill()
	return g.replica.Addr(), nil
}

func (g *redisGroup) left(ctx context.Context, text string) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for i, s := range g.list {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		keys, err := rdb.Keys(ctx, "*"+text+"*").Result()
		for _, k := range keys {
			var ttl time.Duration
			if ttl, err = rdb.PTTL(ctx, k).Result(); err == nil {
				all[strconv.Itoa(i)+" "+k] = ttl
			}
		}
		_ = rdb.Close()
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (g *redisGroup) close() {
	for _, s := range g.list {
		s.Close()
	}
	if g.replica != nil {
		g.replica.Close()
	}
}
