// Command renewdemo holds many locks at once and shows how they are kept alive:
// on a store in its own memory, or on a Redis server. It can make the store fail
// and proves in its summary that the right holders, and no others, were told.
//
//	go run ./cmd/renewdemo
//	go run ./cmd/renewdemo -engine heap -leases 100000 -redis redis://localhost:6379/0 -for 60s
//	go run ./cmd/renewdemo -fault steal
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `renewdemo holds many locks at once and shows how they are kept alive.

Each lock is a lease with a TTL. A watchdog renews those that are due, in batches,
at a third of the TTL. If a lease can no longer be assumed held, its holder is
told before anybody else could get the lock. The exit status is 0 only if every
lease that should have lived did, and every holder that lost one was told in time.

Columns: leases held, renewals per second, leases per batch (mean), how late
renewals were sent (median, 99th percentile), holders told of a loss, goroutines.

Usage: renewdemo [flags]

`

// config is what the flags say.
type config struct {
	engine string
	leases int
	ttl    time.Duration
	length time.Duration
	redis  string
	fault  string
	steal  int
}

func main() { os.Exit(status()) }

// status runs the demo and returns its exit status.
func status() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := run(ctx, c, newScreen(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "renewdemo:", err)
		return 1
	}
	return 0
}

// parse reads the flags; errors have been printed to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("renewdemo", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {
		fmt.Fprint(w, usage)
		f.PrintDefaults()
	}
	f.StringVar(&c.engine, "engine", "wheel", "timer engine: `wheel` or heap")
	f.IntVar(&c.leases, "leases", 10_000, "how many leases to hold")
	f.DurationVar(&c.ttl, "ttl", 0, "TTL of a lease (default 30s, 3s with -fault)")
	f.DurationVar(&c.length, "for", 15*time.Second, "how long to hold them")
	f.StringVar(&c.redis, "redis", "", "`URL` of a Redis server, such as redis://localhost:6379/0 (default: a store in memory)")
	f.StringVar(&c.fault, "fault", "", "what goes wrong after a third of the time:\n"+
		"`hang`|errors|steal: renewals get no answer any more; one renewal now and then\n"+
		"fails; the keys of some leases are deleted")
	f.IntVar(&c.steal, "steal", 137, "how many keys -fault steal deletes")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if c.ttl == 0 {
		c.ttl = 30 * time.Second
		if c.fault != "" {
			c.ttl = 3 * time.Second
		}
	}
	if err := c.check(f.Args()); err != nil {
		fmt.Fprintln(w, "renewdemo:", err)
		return c, err
	}
	return c, nil
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.engine != "wheel" && c.engine != "heap":
		return fmt.Errorf("-engine must be wheel or heap, not %q", c.engine)
	case c.leases < 1 || c.leases > 10_000_000:
		return fmt.Errorf("-leases must be 1 to 10000000, not %d", c.leases)
	case c.length < time.Second:
		return fmt.Errorf("-for must be at least 1s, not %v", c.length)
	case c.fault != "" && c.fault != "hang" && c.fault != "errors" && c.fault != "steal":
		return fmt.Errorf("-fault must be hang, errors or steal, not %q", c.fault)
	case c.fault == "steal" && (c.steal < 1 || c.steal > c.leases):
		return fmt.Errorf("-steal must be 1 to the number of leases, not %d", c.steal)
	case c.fault != "" && c.length < 2*c.ttl:
		return fmt.Errorf("-for must be at least twice the TTL of %v with a -fault, not %v", c.ttl, c.length)
	}
	return nil
}
