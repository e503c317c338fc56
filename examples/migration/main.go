// Command migration brings a database to its newest version when a service starts. Several
// replicas start at the same time, and one of them migrates. Each step passes the
// fencing token, so that the database refuses a replica that has lost the lock.
//
// The database is a stand-in in memory. Without Redis, the lock is in memory as well:
//
//	go run ./examples/migration
//	go run ./examples/migration -stall     # the first replica hangs, and an operator takes its lock away
//
// With Redis, the lock covers all processes, and a real database would, too:
//
//	go run ./examples/migration -redis redis://localhost:6379
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run starts three replicas and returns when the database has its newest version.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("migration", flag.ContinueOnError)
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	stall := flags.Bool("stall", false, "let the first replica hang in its second step")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := newStore(*url)
	if err != nil {
		return err
	}
	client, err := lock.New(store, nil)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()

	db := newDatabase()
	m := &migration{client: client, db: db, step: db.migrate, log: log.New(out, "", 0)}
	m.stall.Store(*stall)
	var wg sync.WaitGroup
	failures := make([]error, 3)
	for i := range failures {
		wg.Go(func() { failures[i] = m.replica(ctx, i+1) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// newStore returns a store on a Redis server, or in memory if url is empty.
func newStore(url string) (driver.Store, error) {
	if url == "" {
		return memstore.New(), nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redisstore.New(redis.NewClient(options), nil)
}

// migration is what the replicas share.
type migration struct {
	client *lock.Client
	db     *database
	step   func(version int, token uint64) error // of the database
	log    *log.Logger
	stall  atomic.Bool // the next replica at the second step hangs
}

// replica returns when the database has its newest version. A replica that has lost its
// lock starts over, because another one may have gone on meanwhile.
func (m *migration) replica(ctx context.Context, n int) error {
	for {
		err := lock.Do(ctx, m.client.Mutex("migration"), func(ctx context.Context, held *lock.Held) error {
			return m.migrate(ctx, n, held.Token())
		})
		if !errors.Is(err, lock.ErrLost) && !errors.Is(err, fence.ErrStale) {
			return err
		}
		m.log.Printf("replica %d starts over: %v", n, err)
	}
}

// migrate takes the steps that are left. The token protects each of them, even if the
// process is paused between the check of ctx and the step.
func (m *migration) migrate(ctx context.Context, n int, token uint64) error {
	for version := m.db.current(); version < len(steps); version++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if version == 1 && m.stall.CompareAndSwap(true, false) {
			m.log.Printf("replica %d hangs", n)
			m.hang()
		}
		if err := m.step(version, token); err != nil {
			return err
		}
		m.log.Printf("replica %d: %s", n, steps[version])
	}
	return nil
}

// hang stands for a pause of the process, while an operator takes its lock away and another
// replica ends the migration.
func (m *migration) hang() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.client.ForceRelease(ctx, "migration"); err != nil {
		m.log.Print(err)
		return
	}
	select {
	case <-m.db.newest:
	case <-ctx.Done():
	}
}
