// Command httpservice serves HTTP requests that need a lock, and stops without leaving a lock
// behind. Each order is shipped by one request at a time, in all replicas of the service.
//
// Without Redis, the store is in memory:
//
//	go run ./examples/httpservice
//	curl -i -X POST localhost:8080/orders/7/ship    # a second one meanwhile gets 409
//
// With Redis, any number of replicas exclude each other. Stop Redis, and a request gets 503:
//
//	go run ./examples/httpservice -addr localhost:8081 -redis redis://localhost:6379
//
// On SIGTERM or Ctrl-C the service accepts no more requests, finishes those that it has, and
// releases its locks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
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

// run serves requests until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("httpservice", flag.ContinueOnError)
	addr := flags.String("addr", "localhost:8080", "address to listen on")
	url := flags.String("redis", "", "`URL` of a Redis server (default: a store in memory)")
	work := flags.Duration("work", 3*time.Second, "time that it takes to ship an order")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := newStore(*url)
	if err != nil {
		return err
	}
	client, err := lock.New(store, nil) // one client for all requests
	if err != nil {
		return err
	}
	defer func() { // after Shutdown, when no handler uses a lock
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
		fmt.Fprintln(out, "stopped")
	}()

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes(client, func(ctx context.Context) error { return pretend(ctx, *work) }, out), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintln(out, "listening on", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(out, "finishing the requests")
	finishing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(finishing)
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

// routes returns the handler of the service. ship must stop when its ctx ends, because the lock is
// lost or because the client of the request has gone.
func routes(client *lock.Client, ship func(ctx context.Context) error, out io.Writer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/ship", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		// A request waits for at most a second; the time of the work is not limited.
		err := lock.Do(r.Context(), lock.WaitAtMost(client.Mutex("order/"+id), time.Second), func(ctx context.Context, _ *lock.Held) error {
			fmt.Fprintln(out, "shipping", id)
			return ship(ctx)
		})
		if err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		fmt.Fprintln(w, "shipped", id)
	})
	return mux
}

// pretend stands for the work. It stops when ctx ends.
func pretend(ctx context.Context, work time.Duration) error {
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// status returns the HTTP status for an error.
func status(err error) int {
	switch {
	case errors.Is(err, lock.ErrUnavailable): // the store did not answer
		return http.StatusServiceUnavailable
	case errors.Is(err, lock.ErrClosed), errors.Is(err, lock.ErrTooMany): // this replica stops, or is overloaded
		return http.StatusServiceUnavailable
	case errors.Is(err, lock.ErrNotAcquired): // another request ships this order
		return http.StatusConflict
	default: // such as lock.ErrLost: nobody knows whether the order was shipped
		return http.StatusInternalServerError
	}
}
