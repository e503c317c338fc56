// Command timeouts is an HTTP client that sends many requests at the same time, each with a timeout
// of its own. One timing wheel has all timeouts:
//
//	go run ./examples/timeouts -requests 10000 -timeout 5s
//
// Every tenth request meets a handler that never answers. With context.WithTimeout the program is
// the same, and each timeout takes about twice the time and the memory.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run sends the requests to a server in this process.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("timeouts", flag.ContinueOnError)
	requests := flags.Int("requests", 10_000, "requests at the same time")
	timeout := flags.Duration("timeout", 5*time.Second, "timeout of a request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	timers, err := wheel.New(&wheel.Options{Tick: max(*timeout/100, time.Millisecond)}) // ends up to 1 % late
	if err != nil {
		return err
	}
	defer timers.Close()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // many requests share a connection
	server := &http.Server{Handler: http.HandlerFunc(answer), Protocols: &protocols}
	go func() { _ = server.Serve(listener) }() // returns at Close
	defer func() { _ = server.Close() }()
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()

	c := &client{http: http.Client{Transport: transport}, timers: timers, timeout: *timeout, url: "http://" + listener.Addr().String()}
	var answers, timeouts, failures atomic.Int64
	var wg sync.WaitGroup
	for i := range *requests {
		wg.Go(func() {
			switch err := c.get(ctx, i); {
			case err == nil:
				answers.Add(1)
			case errors.Is(err, context.DeadlineExceeded):
				timeouts.Add(1)
			default:
				failures.Add(1)
			}
		})
	}
	wg.Wait()
	fmt.Fprintf(out, "%d answers, %d timeouts, %d failures, %d timers pending\n",
		answers.Load(), timeouts.Load(), failures.Load(), timers.Stats().Pending)
	return ctx.Err()
}

// client sends requests with a timeout.
type client struct {
	http    http.Client
	timers  schedule.Scheduler
	timeout time.Duration
	url     string
}

func (c *client) get(ctx context.Context, i int) error {
	ctx, cancel := schedule.WithTimeout(ctx, c.timers, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d", c.url, i%10), http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// answer answers all requests but those of /0.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/0" {
		<-r.Context().Done()
		return
	}
	fmt.Fprintln(w, "hello")
}
