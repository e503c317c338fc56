package check

import (
	"context"
	"database/sql"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// route is the way of a client to the node of a cluster that it uses now.
type route struct {
	pool *sql.DB
	node atomic.Pointer[testsql.MariaDB]
}

func newRoute(t *testing.T, to *testsql.MariaDB) *route {
	t.Helper()
	r := new(route)
	r.node.Store(to)
	config, err := mysql.ParseDSN(to.DSN("timeout=2s", "readTimeout=10s", "interpolateParams=true"))
	require.NoError(t, err)
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		now, err := mysql.ParseDSN(r.node.Load().DSN())
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, now.Net, now.Addr)
	}
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	r.pool = sql.OpenDB(connector)
	t.Cleanup(func() { assert.NoError(t, r.pool.Close()) })
	return r
}

// counter is a row that the holders of a lock count up, by reading and writing it in a guarded transaction.
type counter struct {
	committed, unknown atomic.Int64 // transactions
}

// count counts up until ctx ends, by way of a pool.
func (c *counter) count(ctx context.Context, client *lock.Client, store *sqlstore.Store, pool *sql.DB) {
	for ctx.Err() == nil {
		held, err := client.Mutex("counter").Lock(ctx)
		if err != nil {
			continue
		}
		switch sent, err := c.once(held, store, pool); {
		case err == nil:
			c.committed.Add(1)
		case sent:
			c.unknown.Add(1)
		}
		_ = held.Unlock(context.Background()) // it may be lost
	}
}

func (c *counter) once(held *lock.Held, store *sqlstore.Store, pool *sql.DB) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := store.Guard(ctx, tx, held); err != nil {
		return false, err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// TestGalera checks the history of locks in a cluster whose nodes are killed, paused and cut off, with all clients on one
// node or each on its own. With calls on several nodes a TryLock may be refused by a node that has not yet seen the
// release.
func TestGalera(t *testing.T) {
	if os.Getenv("GALERA") == "" {
		t.Skip("three servers under load; make stores NAMES=mariadb-11.8 sets GALERA")
	}
	for _, name := range []string{"one node", "all nodes"} {
		t.Run(name, func(t *testing.T) {
			nodes, err := testsql.LaunchGalera(3)
			testprocess.Check(t, err)
			t.Cleanup(func() { testsql.CloseAll(nodes) })
			var routes []*route
			var clients []*lock.Client
			var pools [3]*sql.DB
			for i, m := range nodes {
				pools[i] = openAs(t, "mysql", m.DSN("timeout=2s"))
			}
			_, err = pools[0].ExecContext(t.Context(), "CREATE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL)")
			require.NoError(t, err)
			_, err = pools[0].ExecContext(t.Context(), "INSERT INTO counter VALUES (1, 0)")
			require.NoError(t, err)
			var c counter
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			stop := func() { cancel(); wg.Wait() }
			defer stop()
			for i := range nodes {
				if name == "one node" {
					i = 0
				}
				r := newRoute(t, nodes[i])
				routes = append(routes, r)
				client := newFaultyClient(t, r.pool, sqlstore.MySQL(), false)
				clients = append(clients, client)
				guards := (&database{r.pool, sqlstore.MySQL(), ""}).store(t, sqlstore.Options{})
				wg.Go(func() { c.count(ctx, client, guards.Store, r.pool) })
			}
			l := histories.NewLoad(t, faultTTL, clients...)
			away := func(from, to int) {
				for _, r := range routes {
					r.node.CompareAndSwap(nodes[from], nodes[to])
				}
			}
			back := func(to int) { // each node counts all three: one that was paused learns late that it was left out
				for _, pool := range pools {
					require.Eventually(t, func() bool {
						var n int
						return pool.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.global_status
							WHERE variable_name = 'wsrep_local_state_comment' AND variable_value = 'Synced'
							OR variable_name = 'wsrep_cluster_size' AND variable_value = '3'`).Scan(&n) == nil && n == 2
					}, time.Minute, 100*time.Millisecond)
				}
				if name == "all nodes" {
					routes[to].node.Store(nodes[to])
				}
			}
			isolate := func(to string) {
				_, err := pools[2].ExecContext(t.Context(), "SET GLOBAL wsrep_provider_options = 'gmcast.isolate="+to+"'")
				require.NoError(t, err)
			}
			step := func(what string, f func()) {
				began := time.Now()
				l.Fault(f)
				l.Progress()
				t.Log(what, time.Since(began).Round(time.Millisecond))
			}
			if name == "one node" {
				l.Progress()
			}
			step("healthy", func() { time.Sleep(5 * time.Second) })
			step("another node is killed", func() { nodes[2].Kill(); away(2, 1) })
			step("it returns", func() { require.NoError(t, nodes[2].Start()); back(2) })
			step("the node is killed", func() { nodes[0].Kill(); away(0, 1) })
			step("it returns", func() { require.NoError(t, nodes[0].Start()); back(0) })
			step("a node is paused", func() { nodes[1].Pause(); time.Sleep(5 * time.Second); away(1, 2) })
			step("it goes on", func() { nodes[1].Continue(); back(1) })
			step("a node is cut off", func() { isolate("1"); time.Sleep(5 * time.Second); away(2, 0) })
			step("it is back", func() { isolate("0"); back(2) })
			l.Progress()
			l.Stop()
			stop()
			var n int64
			require.NoError(t, pools[0].QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n))
			t.Log("counted", n, "committed", c.committed.Load(), "without an answer", c.unknown.Load())
			assert.GreaterOrEqual(t, n, c.committed.Load())
			assert.LessOrEqual(t, n, c.committed.Load()+c.unknown.Load())
		})
	}
}
