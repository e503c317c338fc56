// Package bench holds what the benchmark programs share: child processes, the
// resources that a process uses, tables, charts and documents.
package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine returns the number of cores and, where the system tells it, the name of
// the processor.
func Machine() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return fmt.Sprintf("%d × %s", runtime.NumCPU(), strings.Trim(name, "\t :\n"))
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH)
}

// Load returns the load averages of the last 1, 5 and 15 minutes, or "" where the
// system does not tell.
func Load() string {
	text, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
