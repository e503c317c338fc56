package sqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestContract(t *testing.T) {
	t.Run("PostgreSQL/optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newPostgres(t), Options{}) })
	t.Run("PostgreSQL/pessimistic", func(t *testing.T) { t.Parallel(); testContract(t, newPostgres(t), Options{Pessimistic: true}) })
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run("PgBouncer/"+mode, func(t *testing.T) {
			t.Parallel()
			testContract(t, newBouncer(t, "default_query_exec_mode="+mode), Options{Pessimistic: mode == "exec"})
		})
	}
	t.Run("SQLite/optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newSQLite(t), Options{}) })
	t.Run("SQLite/pessimistic", func(t *testing.T) { t.Parallel(); testContract(t, newSQLite(t), Options{Pessimistic: true}) })
}

// testContract runs the contract of stores. All cases share the tables.
func testContract(t *testing.T, d *database, o Options) {
	locktest.TestStore(t, locktest.Config{
		New:      func(t *testing.T) driver.Store { return d.store(t, o) },
		Another:  func(t *testing.T, _ driver.Store) driver.Store { return d.store(t, o) },
		TTL:      3 * time.Second,
		Inspects: true,
		Lists:    true,
		Waiting: func(t *testing.T, s driver.Store, key string) int {
			info, err := s.(*Store).Inspect(context.Background(), key)
			require.NoError(t, err)
			return info.Waiting
		},
		Die: func(t *testing.T, s driver.Store, r driver.Request) {
			_, err := call(t.Context(), s.(*Store), func(ctx context.Context, c *sql.Conn) (answer, error) {
				return s.(*Store).ask(ctx, c, r, ms(min(place, r.TTL)), "")
			})
			require.NoError(t, err)
		},
		Delete: func(t *testing.T, s driver.Store, key string) {
			s.(*Store).exec(t, "DELETE FROM {locks} WHERE lock_key = ?", []byte(key))
		},
		Spoil: func(t *testing.T, s driver.Store, key string) {
			s.(*Store).exec(t, "DELETE FROM {locks} WHERE lock_key = ?", []byte(key))
			s.(*Store).exec(t, `INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
				VALUES (?, 7, {empty}, 42, 0, NULL, 0, 0)`, []byte(key))
		},
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return s.(*Store).count(t, `SELECT count(*) FROM {locks} WHERE lock_key = ? AND kind = 7 AND token = 42
				AND expires = 0 AND queued_until = 0 AND refused_until = 0`, []byte(key)) == 1
		},
	})
}
