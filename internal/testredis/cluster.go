// A Redis Cluster, and moves of its slots.

package testredis

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster whose masters share the slots evenly. Node i of
// Replicas replicates node i of Masters.
type Cluster struct {
	Masters, Replicas []*Server
}

// StartCluster runs a cluster until the end of the test. It has the given number of masters,
// each with a replica if replicated is true. Each redis-server gets the args.
func StartCluster(t testing.TB, masters int, replicated bool, args ...string) *Cluster {
	t.Helper()
	args = append([]string{"--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
	c := new(Cluster)
	for range masters {
		c.Masters = append(c.Masters, Start(t, args...))
		if replicated {
			c.Replicas = append(c.Replicas, Start(t, args...))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		t.Fatalf("testredis: form the cluster: %v", err)
	}
	return c
}

// FormCluster makes a cluster of running servers, each with cluster-enabled.
func FormCluster(ctx context.Context, masters ...*Server) error {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	return (&Cluster{Masters: masters}).form(ctx)
}

// form assigns the slots, introduces the nodes to each other, and waits until every node
// knows the whole cluster.
func (c *Cluster) form(ctx context.Context) error {
	nodes := slices.Concat(c.Masters, c.Replicas)
	for i, s := range nodes {
		if err := c.prepare(ctx, s, i); err != nil {
			return err
		}
	}
	for i, s := range nodes {
		if err := c.introduce(ctx, s, nodes[:i]); err != nil { // faster than by gossip
			return err
		}
	}
	for i, s := range c.Replicas {
		if err := c.replicate(ctx, c.Masters[i], s); err != nil {
			return err
		}
	}
	for _, s := range nodes {
		a := c.admin(s)
		err := await(ctx, func() bool { return c.knows(ctx, a) })
		a.close()
		if err != nil {
			return fmt.Errorf("%s does not see the whole cluster: %w", s.Addr(), err)
		}
	}
	return nil
}

// prepare gives the i-th node its own epoch, and assigns its slots if it is a master.
func (c *Cluster) prepare(ctx context.Context, s *Server, i int) error {
	const slots = 1 << 14
	a := c.admin(s)
	defer a.close()
	if err := a.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
		return err
	}
	if n := len(c.Masters); i < n {
		return a.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err()
	}
	return nil
}

func (c *Cluster) introduce(ctx context.Context, s *Server, to []*Server) error {
	a := c.admin(s)
	defer a.close()
	for _, other := range to {
		host, port, err := net.SplitHostPort(other.Addr())
		if err != nil {
			return err
		}
		if err := a.ClusterMeet(ctx, host, port).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) replicate(ctx context.Context, master, replica *Server) error {
	m, r := c.admin(master), c.admin(replica)
	defer m.close()
	defer r.close()
	id, err := m.Do(ctx, "cluster", "myid").Text()
	if err != nil {
		return err
	}
	known := func() bool { return r.ClusterReplicate(ctx, id).Err() == nil }
	synced := func() bool { return strings.Contains(r.Info(ctx, "replication").Val(), "master_link_status:up") }
	if err := await(ctx, known); err != nil {
		return fmt.Errorf("%s does not know its master: %w", replica.Addr(), err)
	}
	if err := await(ctx, synced); err != nil {
		return fmt.Errorf("%s has no copy of its master's data: %w", replica.Addr(), err)
	}
	return nil
}

// knows reports whether a node sees the whole cluster.
func (c *Cluster) knows(ctx context.Context, a *admin) bool {
	parts, err := a.slots(ctx)
	if err != nil || len(parts) != len(c.Masters) {
		return false
	}
	for _, part := range parts {
		if len(part.Nodes) != 1+len(c.Replicas)/len(c.Masters) {
			return false
		}
	}
	return strings.Contains(a.ClusterInfo(ctx).Val(), "cluster_state:ok")
}

// await waits until a condition holds.
func await(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * pollInterval):
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes, the masters first.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range slices.Concat(c.Masters, c.Replicas) {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Client returns a client of the cluster with the default options. It is closed at the end
// of the test.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Move moves a slot with its keys from one master to another and informs all masters, as a
// resharding does. It first waits until the new owner knows all earlier moves. Otherwise its
// claim would not be newer than theirs, and the masters would redirect clients to each
// other forever.
func (c *Cluster) Move(ctx context.Context, slot int, from, to *Server) error {
	source, target := c.admin(from), c.admin(to)
	defer source.close()
	defer target.close()
	if err := await(ctx, func() bool { return target.epoch(ctx, "current") >= c.latest(ctx) }); err != nil {
		return err
	}
	if err := target.setSlot(ctx, slot, "importing", source); err != nil {
		return err
	}
	if err := source.setSlot(ctx, slot, "migrating", target); err != nil {
		return err
	}
	if err := source.migrate(ctx, slot, to); err != nil {
		return err
	}
	for _, a := range []*admin{target, source} { // in this order the slot always has an owner
		if err := a.setSlot(ctx, slot, "node", target); err != nil {
			return err
		}
	}
	for _, s := range c.Masters {
		if s == from || s == to {
			continue
		}
		a := c.admin(s)
		err := a.setSlot(ctx, slot, "node", target)
		a.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Agree waits until all masters name the given owner of a slot.
func (c *Cluster) Agree(ctx context.Context, slot int, owner *Server) error {
	return await(ctx, func() bool {
		for _, s := range c.Masters {
			a := c.admin(s)
			addr := a.owner(ctx, slot)
			a.close()
			if addr != owner.Addr() {
				return false
			}
		}
		return true
	})
}

// latest returns the highest epoch with which a master claims its slots.
func (c *Cluster) latest(ctx context.Context) int {
	latest := 0
	for _, s := range c.Masters {
		a := c.admin(s)
		latest = max(latest, a.epoch(ctx, "my"))
		a.close()
	}
	return latest
}

// admin is a client of one node for administration.
type admin struct{ *redis.Client }

func (c *Cluster) admin(s *Server) *admin {
	return &admin{redis.NewClient(&redis.Options{Addr: s.Addr()})}
}

func (a *admin) close() { _ = a.Close() }

func (a *admin) setSlot(ctx context.Context, slot int, how string, node *admin) error {
	id, err := node.Do(ctx, "cluster", "myid").Text()
	if err != nil {
		return err
	}
	return a.Do(ctx, "cluster", "setslot", slot, how, id).Err()
}

// epoch returns an epoch that the node knows: its own ("my"), or that of the cluster
// ("current"). It returns -1 if the node does not answer.
func (a *admin) epoch(ctx context.Context, which string) int {
	_, rest, _ := strings.Cut(a.ClusterInfo(ctx).Val(), "cluster_"+which+"_epoch:")
	line, _, _ := strings.Cut(rest, "\r\n")
	epoch, err := strconv.Atoi(line)
	if err != nil {
		return -1
	}
	return epoch
}

func (a *admin) slots(ctx context.Context) ([]redis.ClusterSlot, error) {
	return a.ClusterSlots(ctx).Result() //nolint:staticcheck // the replacement, CLUSTER SHARDS, needs Redis 7
}

// migrate moves all keys of a slot.
func (a *admin) migrate(ctx context.Context, slot int, to *Server) error {
	const atATime = 10
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		return err
	}
	for {
		keys, err := a.ClusterGetKeysInSlot(ctx, slot, atATime).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		args := []any{"migrate", host, port, "", 0, timeout.Milliseconds(), "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		if err := a.Do(ctx, args...).Err(); err != nil {
			return err
		}
	}
}

// owner returns the address of the master of a slot according to this node.
func (a *admin) owner(ctx context.Context, slot int) string {
	parts, _ := a.slots(ctx)
	for _, part := range parts {
		if part.Start <= slot && slot <= part.End && len(part.Nodes) > 0 {
			return part.Nodes[0].Addr
		}
	}
	return ""
}
