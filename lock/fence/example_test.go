package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A job inserts rows. A former holder of its lock inserts nothing.
func ExampleTx() {
	db := openFake() // a database whose migrations ran fence.PostgreSQL.CreateTable()
	defer db.Close()
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	report := func(held *lock.Held, day string) error {
		return fence.Tx(ctx, db, fence.PostgreSQL, "reports", held.Token(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO reports (day) VALUES ($1)", day)
			return err
		})
	}
	first, _ := client.Mutex("reports").Lock(ctx)
	_ = client.ForceRelease(ctx, "reports") // or its process was paused for longer than the lease
	second, _ := client.Mutex("reports").Lock(ctx)

	fmt.Println("the holder:", report(second, "Monday"))
	fmt.Println("a former holder is rejected:", errors.Is(report(first, "Monday"), fence.ErrStale))
	// Output:
	// the holder: <nil>
	// a former holder is rejected: true
}

// A statement that changes one row can compare the token itself.
func ExampleCheckResult() {
	db := openFake() // a database with a table stock, which has a column fence
	defer db.Close()
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	write := func(id string, n int, token uint64) error {
		r, err := db.ExecContext(ctx, "UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?", n, token, id, token)
		return fence.CheckResult(id, token, r, err, func() *sql.Row {
			return db.QueryRowContext(ctx, "SELECT fence FROM stock WHERE id = ?", id)
		})
	}
	first, _ := client.Mutex("stock").Lock(ctx)
	_ = client.ForceRelease(ctx, "stock")
	second, _ := client.Mutex("stock").Lock(ctx)

	fmt.Println("the holder:", write("apples", 7, second.Token()))
	fmt.Println("a former holder is rejected:", errors.Is(write("apples", 3, first.Token()), fence.ErrStale))
	fmt.Println("no such row:", errors.Is(write("pears", 3, second.Token()), sql.ErrNoRows))
	// Output:
	// the holder: <nil>
	// a former holder is rejected: true
	// no such row: true
}

// A batch ships 1,000 orders with one statement, or none of them.
func ExampleCheckRows() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	var ids []string
	orders := newFake() // a database with a table orders, which has a column fence
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("%03d", i))
		orders.data.stock[ids[i]] = 0
	}
	db := open(orders)
	defer db.Close()

	ship := func(ctx context.Context, held *lock.Held) error {
		args := make([]any, len(ids))
		for i, id := range ids {
			args[i] = id
		}
		in := "id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")"
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		r, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'shipped', fence = ? WHERE "+in+" AND fence <= ?",
			slices.Concat([]any{held.Token()}, args, []any{held.Token()})...)
		err = fence.CheckRows("orders", held.Token(), int64(len(ids)), r, err, func() *sql.Row {
			return tx.QueryRowContext(ctx, "SELECT MAX(fence) FROM orders WHERE "+in, args...)
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	batch := client.Batch("orders", ids...)
	fmt.Println("all orders:", lock.Do(context.Background(), batch, ship))
	delete(orders.data.stock, "500") // somebody has deleted an order
	err = lock.Do(context.Background(), batch, ship)
	fmt.Println(strings.Split(err.Error(), ",")[0])
	// Output:
	// all orders: <nil>
	// fence: the statement wrote 999 of 1000 rows of "orders"
}

// A service takes the token from a header.
func ExampleHandler() {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("served:", r.Method, r.URL.Path)
	})
	server := httptest.NewServer(fence.Handler(service, nil, nil))
	defer server.Close()
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	put := func(held *lock.Held) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/apples", strings.NewReader("7"))
		if err != nil {
			return err
		}
		if err := fence.SetHeader(r, held); err != nil {
			return err // the lock is lost, and the holder knows it
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fence.CheckResponse(resp)
	}
	first, _ := client.Mutex("stock").Lock(ctx)
	_ = client.ForceRelease(ctx, "stock") // the first holder does not know yet
	second, _ := client.Mutex("stock").Lock(ctx)
	fmt.Println("the holder:", put(second))
	fmt.Println("a former holder is rejected:", errors.Is(put(first), fence.ErrStale))
	// Output:
	// served: PUT /apples
	// the holder: <nil>
	// a former holder is rejected: true
}
