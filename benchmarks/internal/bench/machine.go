// Package bench is what the programs that measure have in common: children in
// processes of their own, what those use, and how results are shown.
package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine returns the processor's name, where the system tells it.
func Machine() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // not there: then less is said
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return fmt.Sprintf("%d × %s", runtime.NumCPU(), strings.Trim(name, "\t :\n"))
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH)
}
