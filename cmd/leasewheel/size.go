// The command size, which estimates what many leases cost.

package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

var sizeCommand = command{
	name:    "size",
	summary: "estimate what many leases cost the client and the server",
	about: `
Prints the processor time, memory and network that it takes to hold a number of leases, each renewed after a
third of its TTL. It asks no server. The estimates come from measurements with 1,000 to 1,000,000 leases on a
machine with two cores (docs/BENCHMARKS.md), from which they differ by less than a third. Another machine has other
figures: compare with leasewheel bench.

With more than one master the servers are taken for a cluster, where a renewal costs about twice as much. Without
-masters the command proposes a number at which renewals take a quarter of a core of each master.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var l load
		asJSON := f.Bool("json", false, "print JSON")
		f.IntVar(&l.Leases, "leases", 100_000, "`number` of leases that are held at the same time")
		f.DurationVar(&l.ttl, "ttl", defaultTTL, "TTL of the leases, as a `duration`")
		f.IntVar(&l.Processes, "processes", 1, "`number` of processes that hold them")
		f.IntVar(&l.Masters, "masters", 0, "`number` of masters (default: as many as are needed)")
		f.IntVar(&l.KeyLen, "key", 14, "average `bytes` in a key")
		f.IntVar(&l.MetadataLen, "metadata", 0, "average `bytes` of metadata")
		return func(_ []string, std streams) int {
			if err := l.check(); err != nil {
				return fail(std, err)
			}
			l.TTL = l.ttl.Milliseconds()
			e := l.estimate()
			if *asJSON {
				if err := printJSON(std.out, e); err != nil {
					return fail(std, err)
				}
				return 0
			}
			e.print(std.out)
			return 0
		}
	},
}

// load is what the estimate is for.
type load struct {
	Leases      int   `json:"leases"`
	TTL         int64 `json:"ttlMs"`
	Processes   int   `json:"processes"`
	Masters     int   `json:"masters"`
	KeyLen      int   `json:"keyBytes"`
	MetadataLen int   `json:"metadataBytes"`

	ttl time.Duration
}

func (l load) check() error {
	for _, n := range []struct {
		flag       string
		value      int
		least, max int
	}{
		{"leases", l.Leases, 1, 1_000_000_000},
		{"processes", l.Processes, 1, 1_000_000},
		{"masters", l.Masters, 0, 1000},
		{"key", l.KeyLen, 1, lock.MaxKeyLen},
		{"metadata", l.MetadataLen, 0, lock.MaxMetadataLen},
	} {
		if n.value < n.least || n.value > n.max {
			return usageError{fmt.Sprintf("size: -%s is %d, must be %d to %d", n.flag, n.value, n.least, n.max)}
		}
	}
	if l.ttl < lock.MinTTL || l.ttl > lock.MaxTTL {
		return usageError{fmt.Sprintf("size: -ttl is %v, must be %v to %v", l.ttl, lock.MinTTL, lock.MaxTTL)}
	}
	return nil
}

// estimate is what a load costs. Figures of the clients are for one process, figures of the
// servers for one master.
type estimate struct {
	load

	Renewals     float64 `json:"renewalsPerSecond"` // of all processes
	ClientCores  float64 `json:"clientCores"`
	ClientMemory float64 `json:"clientBytes"`
	ServerCores  float64 `json:"serverCores"`
	ServerMemory float64 `json:"serverBytes"`
	Network      float64 `json:"networkBytesPerSecond"` // from all clients to all servers; replies are negligible
}

// The constants of the model. TestTheModelOfSizesFitsTheMeasurements compares them with the
// published tables.
const (
	renewalsPerTTL = 3
	masterShare    = 0.25 // the share of a core that renewals may take of a master

	clientCores       = 0.0055  // of each process, for its timers and round trips
	clientPerRenewal  = 1.75e-6 // core seconds
	serverCores       = 0.0018
	serverPerRenewal  = 2.35e-6
	clientInCluster   = 1.6 // times as much for a renewal
	serverInCluster   = 3.2
	clientMemory      = 6.5e6 // bytes of a process
	clientPerLease    = 1000
	serverPerLease    = 333 // bytes of a lock with a key of measuredKeyLen bytes and without metadata
	networkPerRenewal = 89
	measuredKeyLen    = 14
	keysPerLock       = 2       // the lock and its token
	encodedMetadata   = 4. / 3. // bytes for a byte of metadata
)

// estimate returns what the load costs. If Masters is 0, it chooses the number.
func (l load) estimate() estimate {
	e := estimate{load: l, Renewals: float64(l.Leases) * renewalsPerTTL / l.ttl.Seconds()}
	if e.Masters == 0 {
		e.Masters = mastersFor(e.Renewals)
	}
	client, server := clientPerRenewal, serverPerRenewal
	if e.Masters > 1 {
		client, server = client*clientInCluster, server*serverInCluster
	}
	processes, masters, leases := float64(l.Processes), float64(e.Masters), float64(l.Leases)
	longer := float64(l.KeyLen - measuredKeyLen)
	metadata := float64(l.MetadataLen) * encodedMetadata
	e.ClientCores = clientCores + client*e.Renewals/processes
	e.ClientMemory = clientMemory + (clientPerLease+longer+float64(l.MetadataLen))*leases/processes
	e.ServerCores = serverCores + server*e.Renewals/masters
	e.ServerMemory = (serverPerLease + keysPerLock*longer + metadata) * leases / masters
	e.Network = (networkPerRenewal + longer + metadata) * e.Renewals
	return e
}

// mastersFor returns the number of masters that spend at most masterShare of a core each.
func mastersFor(renewals float64) int {
	const budget = masterShare - serverCores
	if renewals*serverPerRenewal <= budget {
		return 1
	}
	return max(int(math.Ceil(renewals*serverPerRenewal*serverInCluster/budget)), 2)
}

func (e estimate) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("leases", "%d with a TTL of %v, each renewed every %v", e.Leases, e.ttl, (e.ttl / renewalsPerTTL).Round(time.Millisecond))
	row("renewals", "%.0f a second", e.Renewals)
	row("network", "%s a second to the servers", bytesText(e.Network))
	row("each process", "%.1f %% of a core, %s of memory; there are %d", e.ClientCores*100, bytesText(e.ClientMemory), e.Processes)
	row("each master", "%.1f %% of a core, %s of memory; there are %d", e.ServerCores*100, bytesText(e.ServerMemory), e.Masters)
	_ = t.Flush() // a failure to print shows
}

// bytesText returns a number of bytes with a decimal unit.
func bytesText(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.3g %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f B", n)
}
