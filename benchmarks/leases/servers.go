// The servers of a measurement, a single one or a cluster, and their statistics.

package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// servers are the servers of one measurement: a single one, or the masters of a
// cluster.
type servers struct {
	nodes []*node
}

// node is a server with a client of its own.
type node struct {
	server *testredis.Server
	rdb    *redis.Client
}

const (
	masters = 3
	slots   = 16384
)

// startServers starts a single server or a cluster.
func startServers(ctx context.Context, clustered bool) (*servers, error) {
	if !clustered {
		return launch(1)
	}
	s, err := launch(masters,
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "no") // otherwise a dead master stops the others
	if err != nil {
		return nil, err
	}
	var list []*testredis.Server
	for _, n := range s.nodes {
		list = append(list, n.server)
	}
	if err := testredis.FormCluster(ctx, list...); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func launch(n int, args ...string) (*servers, error) {
	s := new(servers)
	for range n {
		server, err := testredis.Launch(args...)
		if err != nil {
			s.close()
			return nil, err
		}
		s.nodes = append(s.nodes, &node{server, redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})})
	}
	return s, nil
}

// firstSlot returns the first slot of the i-th master.
func firstSlot(i int) int { return i * slots / masters }

func (s *servers) addrs() []string {
	var list []string
	for _, n := range s.nodes {
		list = append(list, n.server.Addr())
	}
	return list
}

func (s *servers) close() {
	for _, n := range s.nodes {
		_ = n.rdb.Close()
		n.server.Close()
	}
}

// keys returns the keys of each server.
func (s *servers) keys(ctx context.Context, key func(int) string, n int) ([][]string, error) {
	all := make([]string, n)
	for i := range all {
		all[i] = key(i)
	}
	if len(s.nodes) == 1 {
		return [][]string{all}, nil
	}
	lists := make([][]string, len(s.nodes))
	cmds, err := s.nodes[0].rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range all {
			p.ClusterKeySlot(ctx, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, cmd := range cmds {
		slot := int(cmd.(*redis.IntCmd).Val())
		at := 0
		for slot >= firstSlot(at+1) {
			at++
		}
		lists[at] = append(lists[at], all[i])
	}
	return lists, nil
}

// missing counts the keys that do not exist on the server.
func (n *node) missing(ctx context.Context, keys []string) (int, error) {
	const pipeline = 1000
	absent := 0
	for len(keys) > 0 {
		part := keys[:min(pipeline, len(keys))]
		keys = keys[len(part):]
		cmds, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, k := range part {
				p.Exists(ctx, k)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, cmd := range cmds {
			absent += 1 - int(cmd.(*redis.IntCmd).Val())
		}
	}
	return absent, nil
}

// serverStats are the statistics of a server, or of several.
type serverStats struct {
	at       time.Time
	cpu      float64 // seconds since the start of the server
	renewals float64 // since resetStats
	script   float64 // 99th percentile of the run times in µs, since resetStats
}

// resetStats resets the statistics of the servers.
func (s *servers) resetStats(ctx context.Context) error {
	for _, n := range s.nodes {
		if err := n.rdb.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// readStats returns the sums over the servers, and the highest script time. It counts a renewal by its effect: the
// script of every candidate extends a key by one PEXPIRE or PEXPIREAT, and nothing else in this program uses these
// commands.
func (s *servers) readStats(ctx context.Context) (serverStats, error) {
	var sum serverStats
	for _, n := range s.nodes {
		info, err := bench.Info(ctx, n.rdb, "cpu", "commandstats", "latencystats")
		if err != nil {
			return sum, err
		}
		sum.at = time.Now()
		sum.cpu += bench.InfoCPU(info)
		sum.renewals += bench.InfoField(info["cmdstat_pexpire"], "calls") + bench.InfoField(info["cmdstat_pexpireat"], "calls")
		sum.script = max(sum.script, bench.InfoField(info["latency_percentiles_usec_evalsha"], "p99"))
	}
	return sum, nil
}
