// The servers of one round, and what can happen to them.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
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
type servers struct {
	kind  string
	addrs []string

	hang, resume func() error // of the first; its connections stay open
	end          func()

	redis   []*testredis.Server // of the kinds of Redis
	replica *testredis.Server
}

func startServers(kind string) (*servers, error) {
	switch kind {
	case redisServer:
		return startRedis(1)
	case redisServers:
		return startRedis(3)
	}
	return spareServer(kind)
}

// close ends servers of Redis. Another server keeps locks on disk and takes long to start: the next round
// uses it.
func (s *servers) close() {
	if s.redis != nil {
		s.end()
		return
	}
	spares.mu.Lock()
	defer spares.mu.Unlock()
	spares.free = append(spares.free, s)
}

// spares are servers that no round uses.
var spares struct {
	mu   sync.Mutex // guards free
	free []*servers
}

// spareServer returns a server of a kind that no other round uses.
func spareServer(kind string) (*servers, error) {
	spares.mu.Lock()
	for i, s := range spares.free {
		if s.kind == kind {
			defer spares.mu.Unlock()
			spares.free = slices.Delete(spares.free, i, i+1)
			return s, nil
		}
	}
	spares.mu.Unlock()
	start := map[string]func() (*servers, error){postgresServer: startPostgres, etcdServer: startEtcd, zooKeeperServer: startZooKeeper}[kind]
	s, err := start()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	s.kind = kind
	return s, nil
}

// endSpares ends the servers after all rounds.
func endSpares() {
	for _, s := range spares.free {
		s.end()
	}
}

func startRedis(n int) (*servers, error) {
	g := &servers{}
	g.end = func() {
		for _, s := range g.redis {
			s.Close()
		}
		if g.replica != nil {
			g.replica.Close()
		}
	}
	for range n {
		s, err := testredis.Launch()
		if err != nil {
			g.end()
			return nil, err
		}
		g.redis, g.addrs = append(g.redis, s), append(g.addrs, s.Addr())
	}
	g.hang, g.resume = g.redis[0].Stop, g.redis[0].Cont
	return g, nil
}

// restart ends all servers as a crash does, and starts them as they start then: Redis, which keeps nothing
// by default, is empty.
func (s *servers) restart() error {
	for _, one := range s.redis {
		if err := one.Restart(); err != nil {
			return err
		}
	}
	return nil
}

// loseReplica gives the first server a replica that gets nothing from now on. failOver then replaces the
// server by it.
func (s *servers) loseReplica(ctx context.Context) (err error) {
	if s.replica, err = testredis.Launch(); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.replica.Addr()})
	defer func() { _ = rdb.Close() }()
	host, port, err := net.SplitHostPort(s.addrs[0])
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

// failOver returns the address of the server that replaces the first.
func (s *servers) failOver() string {
	s.redis[0].Kill()
	return s.replica.Addr()
}
