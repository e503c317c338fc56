// Command checkpoint bills the orders of a month, one after the other. Several replicas elect a
// leader, which does the work. If it stops, fails or is killed, the next leader goes on where the
// last one stopped, and each order is billed exactly once.
//
// The state of the lock has the last order that was charged and the sum so far. Both change in one
// Save, and a leader that was paused cannot overwrite what a later one has saved. So the sum contains
// each order once.
//
// A charge happens elsewhere, and no lock makes it one step with the Save. A process that is killed
// between the two leaves an order that the next leader charges again. The payment service has to
// notice that: the number of the order is its idempotency key. The state bounds these repetitions to
// one order for each leader. If the store loses the state, the next leader starts with the first order.
//
// Without Redis, three replicas run in one process, on a store in memory. Each leader fails after
// four orders:
//
//	go run ./examples/checkpoint
//
// With Redis, start several processes and kill the leader at any time. Another process goes on after
// the TTL of 5 s:
//
//	go run ./examples/checkpoint -redis redis://localhost:6379 -replicas 1 -orders 100 -fail 0
package main

import (
	"context"
	"encoding/json"
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

// run starts the replicas and returns when all orders are billed.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("checkpoint", flag.ContinueOnError)
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	replicas := flags.Int("replicas", 3, "number of replicas in this process")
	ttl := flags.Duration("ttl", 5*time.Second, "time after which another replica leads if the leader is killed")
	orders := flags.Int("orders", 10, "number of orders in the month")
	pause := flags.Duration("pause", 200*time.Millisecond, "time that a charge takes")
	fail := flags.Int("fail", 4, "orders after which a leader fails; 0 means never")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, service, err := open(*url)
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

	b := &billing{orders: *orders, fail: *fail, service: slow{service, *pause}}
	var wg sync.WaitGroup
	failures := make([]error, *replicas)
	for i := range failures {
		name := fmt.Sprintf("replica %d of process %d", i+1, os.Getpid())
		wg.Go(func() { failures[i] = b.run(ctx, client, name, log.New(out, name+": ", 0)) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// open returns a store and a payment service, both on a Redis server, or in memory if url is empty.
func open(url string) (driver.Store, payments, error) {
	if url == "" {
		return memstore.New(), &memory{orders: map[int]int{}}, nil
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(options)
	store, err := redisstore.New(rdb, nil)
	return store, &server{rdb, "payments/" + month}, err
}

const (
	month = "2026-11" // is in the key, so each month starts without a state

	// stateTTL is the time for which a month remains billed. Until then no process starts it again.
	stateTTL = 90 * 24 * time.Hour
)

// billing is the work for a month.
type billing struct {
	orders  int // their numbers are 1 to orders
	fail    int // a leader fails after so many orders; 0 means never
	service payments
}

// progress is the state of the lock.
type progress struct {
	Order int `json:"order"` // last one that was charged
	Cents int `json:"cents"` // of all orders so far
}

// run takes part in the election until all orders are billed. If Save fails, the state may be the old or
// the new one. Run then campaigns again, and lead goes on from the state that the store has.
func (b *billing) run(ctx context.Context, client *lock.Client, name string, log *log.Logger) error {
	election := client.With(lock.Terms{StateTTL: stateTTL}).Election("billing/"+month, name)
	return election.Run(ctx, func(ctx context.Context, held *lock.Held) error { return b.lead(ctx, held, log) })
}

// lead bills the orders that are left.
func (b *billing) lead(ctx context.Context, held *lock.Held, log *log.Logger) error {
	var done progress
	if data, token := held.State(); token != 0 {
		if err := json.Unmarshal(data, &done); err != nil {
			return err
		}
	}
	log.Printf("leads after order %d", done.Order)
	for n := 1; done.Order < b.orders; n++ {
		order := done.Order + 1
		cents := 100 * order // stands for the amount of the order
		again, err := b.service.charge(ctx, order, cents)
		if err != nil {
			return err
		}
		if again {
			log.Printf("order %d: was charged already", order)
		}
		done = progress{order, done.Cents + cents}
		if err := save(ctx, held, done); err != nil {
			return err
		}
		log.Printf("order %d: billed", order)
		if n == b.fail {
			return fmt.Errorf("the leader fails after %d orders", n)
		}
	}
	log.Printf("all %d orders are billed: %d cents", done.Order, done.Cents)
	return nil
}

// save puts an order that was charged into the state. It also does that when ctx has ended, as after a
// SIGTERM, because the next leader would charge the order again. The deadline of the lease bounds it.
func save(ctx context.Context, held *lock.Held, done progress) error {
	data, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return held.Save(context.WithoutCancel(ctx), data)
}
