package check

import (
	"log"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/internal/testsql"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(writerVariable); dsn != "" {
		if err := write(dsn); err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(testsql.Around(m, &bouncer, &postgres, &mariaDB))
}
