package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A database compares the token in the statement that writes.
func ExampleWritten() {
	db := sql.OpenDB(new(table)) // any database that knows UPDATE
	defer db.Close()
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	write := func(n int, token uint64) error {
		r, err := db.ExecContext(ctx, "UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?", n, int64(token), "apples", int64(token))
		return fence.Written("apples", token, r, err)
	}
	first, _ := client.Mutex("stock").Lock(ctx)
	_ = client.ForceRelease(ctx, "stock") // or its process stood still for longer than the lease lasts
	second, _ := client.Mutex("stock").Lock(ctx)

	fmt.Println("the holder:", write(7, second.Token()))
	fmt.Println("one of the past is refused:", errors.Is(write(3, first.Token()), fence.ErrStale))
	// Output:
	// the holder: <nil>
	// one of the past is refused: true
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
		if err := fence.Sign(r, held); err != nil {
			return err // the lock is lost, and known to be
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fence.Refused(resp)
	}
	first, _ := client.Mutex("stock").Lock(ctx)
	_ = client.ForceRelease(ctx, "stock") // which the first one does not know yet
	second, _ := client.Mutex("stock").Lock(ctx)
	fmt.Println("the holder:", put(second))
	fmt.Println("one of the past is refused:", errors.Is(put(first), fence.ErrStale))
	// Output:
	// served: PUT /apples
	// the holder: <nil>
	// one of the past is refused: true
}

// table is a database of one row that knows one statement.
type table struct {
	mu       sync.Mutex // guards all below
	n, fence int64
}

func (t *table) Connect(context.Context) (driver.Conn, error) { return conn{t}, nil }
func (t *table) Driver() driver.Driver                        { return nil }

type conn struct{ *table }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c conn) Close() error                        { return nil }

func (c conn) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := args[1].Value.(int64)
	if c.fence > token {
		return driver.RowsAffected(0), nil
	}
	c.n, c.fence = args[0].Value.(int64), token
	return driver.RowsAffected(1), nil
}
