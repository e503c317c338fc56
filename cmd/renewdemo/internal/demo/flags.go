// The flags.

package demo

import (
	"flag"
	"fmt"
	"io"
	"time"
)

const usage = `renewdemo holds many locks and shows how they are renewed.

Each lock is a lease with a TTL. A watchdog renews due leases in batches, after a
third of the TTL. If a lease can no longer be relied on, its holder is notified before
another owner can get the lock. The exit status is 0 if no lease was lost, and 130
after Ctrl-C. Faults are injected with -http and -proof.

The output shows the leases held, renewals per second, leases per batch (mean), how
late renewals were sent (median p50, 99th percentile p99), the holders notified of
a loss, and the goroutines.

Usage: renewdemo [flags]

`

// config is the values of the flags.
type config struct {
	engine string
	leases int
	ttl    time.Duration
	length time.Duration
	store  string
	proof  bool
	http   string
}

// manyLeases is the number of leases from which on the default TTL is long, so that the
// renewals do not take a whole core.
const manyLeases = 50_000

// pageLeases is the number of leases of the page: with them and a TTL of 3 s, a visitor sees the first
// losses two seconds after a fault.
const pageLeases = 2000

// parse reads the flags. It prints errors to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("renewdemo", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {
		fmt.Fprint(w, usage)
		f.PrintDefaults()
	}
	f.StringVar(&c.engine, "engine", "wheel", "timer engine: `wheel` or heap")
	f.IntVar(&c.leases, "leases", 10_000, "number of leases; with -http 2000 unless it is given")
	f.DurationVar(&c.ttl, "ttl", 0, "TTL of a lease (default 6s, 30s from 50000 leases on,\n"+
		"3s with -http, 2s with -proof)")
	f.DurationVar(&c.length, "for", 15*time.Second, "duration of the run")
	f.StringVar(&c.store, "store", "", "the address or `URL` of a Redis server, such as localhost:6379\n"+
		"or redis://user:password@localhost:6379/0 (default: an in-memory store)")
	f.BoolVar(&c.proof, "proof", false, "show when a holder that is cut off or paused stops, and when\n"+
		"a rival has its lock; uses two processes if -store is given or\n"+
		"redis-server is in PATH")
	f.StringVar(&c.http, "http", "", "show the leases on a web page at this `ADDRESS`, such as localhost:8080,\n"+
		"until Ctrl-C; the page injects the faults. Without -store, a redis-server\n"+
		"in PATH is started for it")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	given := false
	f.Visit(func(flag *flag.Flag) { given = given || flag.Name == "leases" })
	if c.http != "" && !given {
		c.leases = pageLeases
	}
	if c.ttl == 0 {
		c.ttl = c.defaultTTL()
	}
	if err := c.validate(f.Args()); err != nil {
		fmt.Fprintln(w, "renewdemo:", err)
		return c, err
	}
	return c, nil
}

func (c *config) defaultTTL() time.Duration {
	switch {
	case c.proof:
		return 2 * time.Second
	case c.http != "" && c.leases <= pageLeases:
		return 3 * time.Second
	case c.leases < manyLeases:
		return 6 * time.Second
	}
	return 30 * time.Second
}

func (c *config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.engine != "wheel" && c.engine != "heap":
		return fmt.Errorf("-engine must be wheel or heap, got %q", c.engine)
	case c.leases < 1 || c.leases > 10_000_000:
		return fmt.Errorf("-leases must be 1 to 10000000, got %d", c.leases)
	case c.length < time.Second:
		return fmt.Errorf("-for must be at least 1s, got %v", c.length)
	case c.http != "" && c.proof:
		return fmt.Errorf("-http does not go with -proof")
	case c.proof && c.ttl < time.Second:
		return fmt.Errorf("-ttl must be at least 1s with -proof, got %v", c.ttl)
	}
	return nil
}
