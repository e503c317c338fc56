// What the demo costs: processors, memory, goroutines.

package demo

import (
	"fmt"
	"strings"
	"time"
)

// resources is the resource usage of a run.
type resources struct {
	goroutines int
	rss        int64
	client     time.Duration // CPU
	server     time.Duration // CPU
	hasServer  bool
	elapsed    time.Duration
	renewals   uint64
}

// describe adds the resource usage to the summary.
func (u *resources) describe(b *strings.Builder) {
	if u == nil || u.renewals == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d goroutines", u.goroutines)
	if u.rss > 0 {
		fmt.Fprintf(b, ", RSS %d MiB", u.rss>>20)
	}
	if u.client > 0 {
		fmt.Fprintf(b, "\nCPU of this process: %s", u.share(u.client))
	}
	if u.hasServer {
		fmt.Fprintf(b, "\nCPU of the server: %s", u.share(u.server))
	}
}

func (u *resources) share(cpu time.Duration) string {
	return fmt.Sprintf("%.1f %% of a core (%.2f µs per renewal)",
		100*cpu.Seconds()/u.elapsed.Seconds(), float64(cpu.Nanoseconds())/1000/float64(u.renewals))
}
