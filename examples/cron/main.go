// Command cron runs a periodic job in a service with several replicas. The replicas elect a
// leader, and only the leader runs the job. When it stops or crashes, another one leads. If the
// clock of the new leader is behind, it does not run a job again that the last one has run.
//
// Without Redis, three replicas run in one process, on a store in memory:
//
//	go run ./examples/cron
//
// With Redis, start several processes. Stop the leader with Ctrl-C, and another process
// leads at once. Kill it, and another one leads after the TTL of 5 s:
//
//	go run ./examples/cron -redis redis://localhost:6379 -replicas 1
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

// run runs the replicas until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("cron", flag.ContinueOnError)
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	replicas := flags.Int("replicas", 3, "number of replicas in this process")
	ttl := flags.Duration("ttl", 5*time.Second, "time after which another replica leads if the leader crashes")
	every := flags.Duration("every", 2*time.Second, "period of the job")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := newStore(*url)
	if err != nil {
		return err
	}
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: *ttl}})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()

	var wg sync.WaitGroup
	failures := make([]error, *replicas)
	for i := range failures {
		name := fmt.Sprintf("replica %d of process %d", i+1, os.Getpid())
		r := newReplica(client, name, *every, out)
		wg.Go(func() { failures[i] = r.run(ctx, client) })
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

// replica is a candidate for the leadership.
type replica struct {
	name  string
	every time.Duration
	log   *log.Logger
	job   *lock.Mutex // stays taken for nine tenths of the period; see Terms.MinHold
}

func newReplica(client *lock.Client, name string, every time.Duration, out io.Writer) *replica {
	return &replica{
		name:  name,
		every: every,
		log:   log.New(out, name+": ", 0),
		job:   client.With(lock.Terms{MinHold: every - every/10}).Mutex("cron/job"),
	}
}

// run takes part in the election until ctx ends. Run campaigns, calls lead, resigns when
// lead has returned, and campaigns again after a loss.
func (r *replica) run(ctx context.Context, client *lock.Client) error {
	err := client.Election("cron", r.name).Run(ctx, r.lead)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead runs the job at each multiple of the period while the replica leads. It returns when
// ctx ends, because of a signal or because the leadership is lost.
func (r *replica) lead(ctx context.Context, held *lock.Held) error {
	r.log.Printf("leads")
	defer r.log.Printf("leads no longer")
	for {
		next := time.Now().Truncate(r.every).Add(r.every)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		if err := r.runOnce(ctx, held, next); err != nil {
			return err
		}
	}
}

// runOnce runs the job unless another replica has run it in this period.
func (r *replica) runOnce(ctx context.Context, held *lock.Held, at time.Time) error {
	once, err := r.job.TryLock(ctx)
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		return ctx.Err()
	case err != nil:
		return err
	}
	err = r.work(ctx, held, at)
	return errors.Join(err, once.Unlock(context.WithoutCancel(ctx)))
}

// work stands for the job. A job that writes to a database passes held.Token() on, so that
// the database can refuse a former leader that was paused.
func (r *replica) work(ctx context.Context, held *lock.Held, at time.Time) error {
	if !held.Valid() { // after a pause, ctx may not have ended yet
		return held.Err()
	}
	r.log.Printf("runs the job of %s", at.Format(time.TimeOnly))
	return ctx.Err()
}
