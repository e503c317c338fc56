package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// about says where and with what a run was made.
type about struct {
	Machine  string   `json:"machine"`
	OS       string   `json:"os"`
	Versions []string `json:"versions"`
	Command  string   `json:"command"`
	Rounds   int      `json:"rounds"`
	Quick    bool     `json:"quick"`
	Minutes  float64  `json:"minutes"`
	Clock    float64  `json:"clock"`             // ns of a look at the clock
	Lock     float64  `json:"lock"`              // ns of locking and unlocking a mutex
	Missing  []string `json:"missing,omitempty"` // peers that could not be measured
}

// aboutHere describes this machine and the modules in this program.
func aboutHere() about {
	a := about{
		Machine: fmt.Sprintf("%s, %d cores", firstOf("/proc/cpuinfo", "model name"), runtime.NumCPU()),
		OS:      runtime.GOOS + "/" + runtime.GOARCH + " " + line("/proc/sys/kernel/osrelease"),
	}
	a.Clock, a.Lock = floor()
	a.Versions = append(a.Versions, runtime.Version())
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	for _, m := range build.Deps {
		for _, peer := range []string{"antlabs/timer", "RussellLuo/", "rfyiamcool/"} {
			if strings.Contains(m.Path, peer) {
				a.Versions = append(a.Versions, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
			}
		}
	}
	return a
}

// floor measures what no engine can do without: a look at the clock to arm a timer,
// and a lock to arm it and one to stop it.
func floor() (clock, lock float64) {
	const n = 2_000_000
	start := now()
	for range n {
		_ = now()
	}
	mid := now()
	var mu sync.Mutex
	for range n {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // nothing is done under it
	}
	return float64(mid-start) / n, float64(now()-mid) / n
}

// firstOf returns the first value of a field in a file of "field: value" lines.
func firstOf(file, field string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func line(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
