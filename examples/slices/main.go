// Command slices counts the rows of a table, a long job that several processes share in slices. One of them
// works at a time. When others wait and its slice is over, it saves how far it is and lets the next one go on.
//
// Without Redis, two workers run in one process, on a store in memory:
//
//	go run ./examples/slices
//
// With Redis, start several processes. They take turns, and one that is killed is replaced after the TTL
// of 5 s:
//
//	go run ./examples/slices -redis redis://localhost:6379 -workers 1 -rows 500
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
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

// run starts the workers and returns when all rows are counted.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("slices", flag.ContinueOnError)
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	workers := flags.Int("workers", 2, "number of workers in this process")
	j := job{}
	flags.IntVar(&j.rows, "rows", 20, "number of rows in the table")
	flags.DurationVar(&j.slice, "slice", time.Second, "time after which a worker lets others go on")
	flags.DurationVar(&j.pause, "pause", 200*time.Millisecond, "time that a row takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := open(*url)
	if err != nil {
		return err
	}
	terms := lock.Terms{TTL: 5 * time.Second, StateTTL: 24 * time.Hour, YieldAfter: j.slice}
	client, err := lock.New(store, &lock.Options{Terms: terms})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	var wg sync.WaitGroup
	failures := make([]error, *workers)
	for i := range failures {
		log := log.New(out, fmt.Sprintf("worker %d of process %d: ", i+1, os.Getpid()), 0)
		wg.Go(func() { failures[i] = j.run(ctx, client, log) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// open returns a store on a Redis server, or in memory if url is empty.
func open(url string) (driver.Store, error) {
	if url == "" {
		return memstore.New(), nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redisstore.New(redis.NewClient(options), nil)
}

// job is the work that the workers share.
type job struct {
	rows         int
	slice, pause time.Duration
}

// run works in slices until all rows are counted.
func (j *job) run(ctx context.Context, client *lock.Client, log *log.Logger) error {
	for {
		err := lock.Do(ctx, client.Mutex("count/orders"), func(ctx context.Context, held *lock.Held) error {
			return j.work(ctx, held, log)
		})
		if !errors.Is(err, lock.ErrWanted) {
			return err
		}
	}
}

// work counts the rows that are left, until ctx ends.
func (j *job) work(ctx context.Context, held *lock.Held, log *log.Logger) error {
	row := 0
	if data, token := held.State(); token != 0 {
		var err error
		if row, err = strconv.Atoi(string(data)); err != nil {
			return err
		}
	}
	first := row + 1
	defer func() { log.Printf("counted rows %d to %d", first, row) }()
	for row < j.rows {
		if ctx.Err() != nil {
			return ctx.Err() // Do returns its cause
		}
		time.Sleep(j.pause)
		if err := held.Save(context.WithoutCancel(ctx), strconv.AppendInt(nil, int64(row+1), 10)); err != nil {
			return err
		}
		row++
	}
	return nil
}
