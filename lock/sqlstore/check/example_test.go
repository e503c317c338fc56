package check_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// A file of SQLite needs no server. With PostgreSQL only the first and the third call differ.
func Example() {
	if err := report(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// taken: true
}

func report() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "locks.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	dialect := sqlstore.SQLite()
	if err := sqlstore.CreateSchema(ctx, db, dialect, nil); err != nil {
		return err
	}
	store, err := sqlstore.New(db, dialect, nil)
	if err != nil {
		return err
	}
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second}})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(ctx) }()

	return lock.Do(ctx, client.Mutex("report"), func(ctx context.Context, _ *lock.Held) error {
		_, err := client.Mutex("report").TryLock(ctx)
		fmt.Println("taken:", err != nil)
		return nil
	})
}
