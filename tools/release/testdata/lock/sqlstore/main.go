// Command main uses the module lock/sqlstore as a program of its users does.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

type server struct{}

func (server) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("no server") }
func (server) Driver() driver.Driver                        { return nil }

func main() {
	store, err := sqlstore.New(sql.OpenDB(server{}), sqlstore.PostgreSQL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	_, err = client.Mutex("k").TryLock(context.Background())
	fmt.Println("unavailable:", errors.Is(err, lock.ErrUnavailable))
}
