// Command anystore runs the same work with its locks in Redis or in PostgreSQL. Only the functions
// onRedis and onPostgres differ. It is a module of its own, because it imports the driver of a database.
//
//	go run . -store redis://localhost:6379
//	go run . -store postgres://user:password@localhost/database
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// onRedis returns a store on a Redis server, and the function that disconnects it.
func onRedis(url string) (driver.Store, func() error, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(options)
	store, err := redisstore.New(rdb, nil)
	return store, rdb.Close, err
}

// onPostgres returns a store in a database, and the function that disconnects it.
func onPostgres(ctx context.Context, url string) (driver.Store, func() error, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, nil, err
	}
	if err := sqlstore.CreateSchema(ctx, db, sqlstore.PostgreSQL(), nil); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	store, err := sqlstore.New(db, sqlstore.PostgreSQL(), nil)
	return store, db.Close, err
}

// run starts three replicas, each with a client of its own, and returns when all have done their work.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("anystore", flag.ContinueOnError)
	url := flags.String("store", "redis://localhost:6379", "`URL` of a Redis server or of a PostgreSQL database")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var done int // is changed under the lock only
	job := func(ctx context.Context) error {
		before := done
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done(): // the lock is lost
			return context.Cause(ctx)
		}
		done = before + 1
		return nil
	}
	var wg sync.WaitGroup
	failures := make([]error, 3)
	for i := range failures {
		wg.Go(func() { failures[i] = replica(ctx, *url, job) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d jobs done, one at a time\n", done)
	return err
}

// replica makes the client of one process, and works.
func replica(ctx context.Context, url string, job func(ctx context.Context) error) (err error) {
	var store driver.Store
	var disconnect func() error
	if strings.HasPrefix(url, "postgres") {
		store, disconnect, err = onPostgres(ctx, url)
	} else {
		store, disconnect, err = onRedis(url)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disconnect()) }()
	client, err := lock.New(store, nil)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	return work(ctx, client, job)
}

// work does ten jobs. It is the same on any store.
func work(ctx context.Context, client *lock.Client, job func(ctx context.Context) error) error {
	for range 10 {
		err := lock.Do(ctx, client.Mutex("jobs"), func(ctx context.Context, _ *lock.Held) error {
			return job(ctx) // ctx ends if the lock is lost
		})
		if err != nil {
			return err
		}
	}
	return nil
}
