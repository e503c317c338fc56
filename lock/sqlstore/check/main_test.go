package check

import (
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testprocess.Around(m, &bouncer, &postgres, &mariaDB))
}
