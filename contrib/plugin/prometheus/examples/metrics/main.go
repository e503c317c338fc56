// Command metrics serves the metrics of a client that is at work. It needs neither a Redis
// server nor Prometheus:
//
//	cd contrib/plugin/prometheus
//	go run ./examples/metrics                              # -redis redis://localhost:6379 for locks on a server
//	curl -s localhost:2112/metrics | grep ^leasewheel
//
// To see the dashboard, let a Prometheus server scrape the address and read the alerts, and
// import dashboard.json into Grafana:
//
//	# prometheus.yml
//	scrape_configs: [{job_name: metrics, scrape_interval: 5s, static_configs: [{targets: ['localhost:2112']}]}]
//	rule_files: [alerts.yml]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("metrics", flag.ContinueOnError)
	address := flags.String("listen", "localhost:2112", "address of the metrics")
	server := flags.String("redis", "", "URL of a Redis server; without it the locks are in memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, name, err := open(*server)
	if err != nil {
		return err
	}
	metrics, err := leaseprom.New(&leaseprom.Options{Store: name, Namer: group})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return err
	}
	client, err := metrics.NewClient(store, nil)
	if err != nil {
		return err
	}
	err = serve(ctx, *address, registry, client, out)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(ending))
}

// group returns the label for a key: "orders" for "orders:3". There are few of them.
func group(key string) string {
	name, _, _ := strings.Cut(key, ":")
	return name
}

// open returns a store and its name.
func open(server string) (driver.Store, string, error) {
	if server == "" {
		return memstore.New(), "memory", nil
	}
	o, err := redis.ParseURL(server)
	if err != nil {
		return nil, "", err
	}
	store, err := redisstore.New(redis.NewClient(o), nil)
	return store, "redis", err
}

// serve serves the metrics and does work under locks until ctx ends.
func serve(ctx context.Context, address string, registry *prometheus.Registry, client *lock.Client, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	for worker := range 8 {
		wg.Go(func() { work(ctx, client, worker) })
	}
	_, _ = fmt.Fprintf(out, "metrics at http://%s/metrics\n", listener.Addr())
	<-ctx.Done()
	err = server.Close()
	wg.Wait()
	return err
}

// work locks keys for a short time until ctx ends. Some calls do not wait for long enough.
func work(ctx context.Context, client *lock.Client, worker int) {
	for ctx.Err() == nil {
		key := fmt.Sprintf("orders:%d", rand.IntN(3))
		if worker%2 == 1 {
			key = "reports:daily"
		}
		err := lock.Do(ctx, lock.WaitAtMost(client.Mutex(key), 100*time.Millisecond), func(ctx context.Context, _ *lock.Held) error {
			pause(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
			return nil
		})
		if err != nil && !errors.Is(err, lock.ErrNotAcquired) && ctx.Err() == nil {
			log.Print(err)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
