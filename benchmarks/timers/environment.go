// The machine and the versions of a run.

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// environment describes the machine and the versions of a run.
type environment struct {
	Machine  string   `json:"machine"`
	OS       string   `json:"os"`
	Go       string   `json:"go"`
	Versions []string `json:"versions"`
	Clock    float64  `json:"clock"`             // ns to read the clock
	Lock     float64  `json:"lock"`              // ns to lock and unlock a mutex
	Missing  []string `json:"missing,omitempty"` // peers that could not be measured
}

// runInfo describes one run of the program.
type runInfo struct {
	Command    string  `json:"command"`
	Rounds     int     `json:"rounds"`
	Quick      bool    `json:"quick"`
	Minutes    float64 `json:"minutes"`
	LoadBefore string  `json:"loadBefore"` // load averages of 1, 5 and 15 minutes
	LoadAfter  string  `json:"loadAfter"`
}

// thisEnvironment describes this machine and the modules of this program.
func thisEnvironment() environment {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only Linux has it
	e := environment{
		Machine: bench.Machine(),
		OS:      strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + string(release)),
		Go:      runtime.Version(),
	}
	e.Clock, e.Lock = clockAndLock()
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return e
	}
	for _, m := range build.Deps {
		for _, peer := range []string{"antlabs/timer", "RussellLuo/", "rfyiamcool/"} {
			if strings.Contains(m.Path, peer) {
				e.Versions = append(e.Versions, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
			}
		}
	}
	return e
}

// clockAndLock measures the two operations that every engine needs.
func clockAndLock() (clock, lock float64) {
	const n = 2_000_000
	start := now()
	for range n {
		_ = now()
	}
	mid := now()
	var mu sync.Mutex
	for range n {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // the empty section is what is measured
	}
	return float64(mid-start) / n, float64(now()-mid) / n
}

func (e environment) String() string {
	text := fmt.Sprintf("%s, %s, %s. Reading the clock takes %.0f ns, locking and unlocking a mutex %.0f ns.\n\n",
		e.Machine, e.OS, e.Go, e.Clock, e.Lock)
	for _, v := range e.Versions {
		text += "- " + v + "\n"
	}
	return text
}

func (r runInfo) String() string {
	return fmt.Sprintf("`%s`, load average %s", r.Command, orUnknown(r.LoadBefore))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
