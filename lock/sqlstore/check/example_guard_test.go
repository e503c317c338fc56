package check_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// The first holder is paused for longer than its lease. Another process gets the lock meanwhile,
// and the first one cannot write any more.
func Example_guard() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "stock.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	dialect := sqlstore.SQLite()
	if err := sqlstore.CreateSchema(ctx, db, dialect, nil); err != nil {
		panic(err)
	}
	if _, err := db.Exec("CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER NOT NULL); INSERT INTO stock VALUES ('apples', 10)"); err != nil {
		panic(err)
	}
	store, err := sqlstore.New(db, dialect, nil)
	if err != nil {
		panic(err)
	}
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	paused := client.With(lock.Terms{TTL: 200 * time.Millisecond, Fixed: true}) // its leases are not renewed

	// set writes a number that was computed under the lock.
	set := func(held *lock.Held, n int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := store.Guard(ctx, tx, held); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = ? WHERE item = 'apples'", n); err != nil {
			return err
		}
		return tx.Commit()
	}

	late, err := paused.Mutex("stock").Lock(ctx)
	if err != nil {
		panic(err)
	}
	next, err := client.Mutex("stock").Lock(ctx) // waits until the lease of the first holder has ended
	if err != nil {
		panic(err)
	}
	fmt.Println("the next holder has written:", set(next, 7) == nil)
	fmt.Println("the late holder is refused:", errors.Is(set(late, 9), lock.ErrLost))
	// Output:
	// the next holder has written: true
	// the late holder is refused: true
}
