package check

import (
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

var mariaDB = testprocess.Shared[*testsql.MariaDB]{Launch: func() (*testsql.MariaDB, error) { return testsql.LaunchMariaDB() }}

// newMariaDB returns tables of their own on the shared server.
func newMariaDB(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "mysql", mariaDB.Get(t).DSN(params...), sqlstore.MySQL(), "t"+strings.ToLower(rand.Text()))
}

// idle is a parameter with which the server ends an idle transaction after some seconds.
func idle(t testing.TB, seconds string) string {
	if mariaDB.Get(t).IsMySQL() {
		return "wait_timeout=" + seconds
	}
	return "idle_transaction_timeout=" + seconds
}

// unusualSession are settings of the user's sessions that must not matter.
var unusualSession = []string{
	"interpolateParams=true", "clientFoundRows=true", "time_zone=" + url.QueryEscape("'+05:30'"),
	"sql_mode=" + url.QueryEscape("'ANSI,NO_UNSIGNED_SUBTRACTION,NO_BACKSLASH_ESCAPES,TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH'"),
}

func TestContractOfMariaDB(t *testing.T) {
	t.Parallel()
	t.Run("optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newMariaDB(t).asUser(t), sqlstore.Options{}) })
	t.Run("pessimistic", func(t *testing.T) {
		t.Parallel()
		testContract(t, newMariaDB(t).asUser(t), sqlstore.Options{Pessimistic: true})
	})
	t.Run("unusual session", func(t *testing.T) {
		t.Parallel()
		params := append([]string{"tx_isolation=" + url.QueryEscape("'SERIALIZABLE'"), "innodb_snapshot_isolation=1"}, unusualSession...)
		if mariaDB.Get(t).IsMySQL() {
			params = append(params[2:], "transaction_isolation="+url.QueryEscape("'SERIALIZABLE'"))
		}
		testContract(t, newMariaDB(t, params...), sqlstore.Options{})
	})
}

// TestKeysThatACollationTakesForEqual locks keys that differ in case, accents and trailing blanks only.
func TestKeysThatACollationTakesForEqual(t *testing.T) {
	for _, collation := range []string{"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin"} {
		for _, interpolate := range []string{"true", "false"} {
			s := newMariaDB(t, "collation="+collation, "interpolateParams="+interpolate).store(t, sqlstore.Options{})
			var batch []driver.Lease
			for _, key := range []string{"straße", "STRASSE", "strasse", "strasse ", "strasse  ", "strässe"} {
				batch = append(batch, acquire(t, s, request(key)))
			}
			out := make([]renewal.Outcome, len(batch))
			require.NoError(t, s.Renew(t.Context(), batch, out))
			assert.Equal(t, slices.Repeat([]renewal.Outcome{renewal.Renewed}, len(batch)), out)
			require.NoError(t, s.Release(t.Context(), batch[2]))
			keys, _, err := s.List(t.Context(), "strasse", "")
			require.NoError(t, err)
			assert.Equal(t, []string{"strasse ", "strasse  "}, keys)
		}
	}
}

// TestAFailedQueryIsNoLoss sets the metadata that a lock has already. MariaDB counts no changed row,
// so the store asks whether the lock is held, and that query fails.
func TestAFailedQueryIsNoLoss(t *testing.T) {
	s := newMariaDB(t).store(t, sqlstore.Options{})
	l := acquire(t, s, request("k"))
	require.NoError(t, s.SetMetadata(t.Context(), l, "m"))
	isHeld := seam.TextsOf(s.Store).IsHeld
	works := *isHeld
	*isHeld = s.expand("SELECT count(*) FROM {locks}_missing WHERE lock_key = ? AND owner = ? AND token = ?")
	err := s.SetMetadata(t.Context(), l, "m")
	require.ErrorContains(t, err, "_missing")
	require.NotErrorIs(t, err, driver.ErrNotHeld)
	*isHeld = works
	require.NoError(t, s.SetMetadata(t.Context(), l, "m"))
	require.NoError(t, s.Release(t.Context(), l))
	require.ErrorIs(t, s.SetMetadata(t.Context(), l, "m"), driver.ErrNotHeld)
}
