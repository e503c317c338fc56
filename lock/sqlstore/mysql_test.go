package sqlstore

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/leasewheel/leasewheel/internal/testsql"
)

var mariaDB = testsql.Shared[*testsql.MariaDB]{Launch: func() (*testsql.MariaDB, error) { return testsql.LaunchMariaDB() }}

// newMariaDB returns tables of their own on the shared server.
func newMariaDB(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "mysql", mariaDB.Get(t).DSN(params...), MySQL(), "t"+strings.ToLower(rand.Text()))
}

// unusualSession are settings of the user's sessions that must not matter.
var unusualSession = []string{
	"interpolateParams=true", "clientFoundRows=true", "time_zone=" + url.QueryEscape("'+05:30'"),
	"sql_mode=" + url.QueryEscape("'ANSI,NO_UNSIGNED_SUBTRACTION,NO_BACKSLASH_ESCAPES,TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH'"),
	"tx_isolation=" + url.QueryEscape("'SERIALIZABLE'"), "innodb_snapshot_isolation=1",
}

func TestContractOfMariaDB(t *testing.T) {
	t.Run("optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newMariaDB(t), Options{}) })
	t.Run("pessimistic", func(t *testing.T) { t.Parallel(); testContract(t, newMariaDB(t), Options{Pessimistic: true}) })
	t.Run("unusual session", func(t *testing.T) { t.Parallel(); testContract(t, newMariaDB(t, unusualSession...), Options{}) })
}
