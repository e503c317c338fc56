// Command delayedjobs runs jobs at their instants, the urgent ones first, and retries those
// that fail. At the end it prints the jobs that are left, which a service would store.
//
// The queue is in the memory of the process. Two jobs of one customer must not run at the
// same time, so each job takes the lock of its customer. Without Redis, that covers one process:
//
//	go run ./examples/delayedjobs
//
// With Redis, it covers all processes:
//
//	go run ./examples/delayedjobs -redis redis://localhost:6379
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
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/heapqueue"
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

// run runs the jobs until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("delayedjobs", flag.ContinueOnError)
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	workers := flags.Int("workers", 2, "jobs that run at the same time")
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

	s := &service{client: client, log: log.New(out, "", 0)}
	now := time.Now()
	for _, err := range []error{
		s.push(&job{name: "resize an image", customer: "ann", do: succeed}, now, 0),
		s.push(&job{name: "charge a card", customer: "bob", do: succeed}, now, 10), // runs first
		s.push(&job{name: "send a receipt", customer: "bob", do: failFirst(2)}, now.Add(time.Second), 10),
		s.push(&job{name: "delete the account", customer: "cid", do: succeed}, now.Add(24*time.Hour), 0),
	} {
		if err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() { s.work(ctx) })
	}
	wg.Wait() // for the jobs that run; they may push again
	for _, item := range s.jobs.Close() {
		s.log.Printf("left: %s, due in %v", item.Value.name, time.Until(item.At).Round(time.Minute))
	}
	return nil
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

// job is a value of the queue. One worker at a time has it.
type job struct {
	name, customer string
	do             func(ctx context.Context) error // must stop when ctx ends
	attempts       int
}

// succeed stands for the work of a job.
func succeed(ctx context.Context) error { return ctx.Err() }

// failFirst returns the work of a job whose first n attempts fail.
func failFirst(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		if n--; n >= 0 {
			return errors.New("the mail server is busy")
		}
		return ctx.Err()
	}
}

// service runs jobs.
type service struct {
	client *lock.Client
	jobs   heapqueue.Queue[*job]
	log    *log.Logger
}

func (s *service) push(j *job, at time.Time, priority int) error {
	_, err := s.jobs.PushPriority(j, at, priority)
	return err
}

// work runs jobs until ctx ends. A job that fails goes back to the queue.
func (s *service) work(ctx context.Context) {
	for {
		item, err := s.jobs.Pop(ctx)
		if err != nil {
			return // ctx has ended
		}
		j := item.Value
		err = lock.Do(ctx, lock.WaitAtMost(s.client.Mutex("customer/"+j.customer), 0), func(ctx context.Context, _ *lock.Held) error {
			j.attempts++
			return j.do(ctx) // ctx ends if the lock is lost, too
		})
		switch {
		case err == nil:
			s.log.Printf("done: %s", j.name)
			continue
		case j.attempts == 5:
			s.log.Printf("given up: %s: %v", j.name, err)
			continue
		}
		pause := time.Second << j.attempts // a job that did not get its lock has made no attempt
		s.log.Printf("again in %v: %s: %v", pause, j.name, err)
		if err := s.push(j, time.Now().Add(pause), item.Priority); err != nil {
			s.log.Printf("lost: %s: %v", j.name, err)
		}
	}
}
