// Processor time and memory of processes.

package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const tick = 10 * time.Millisecond // the unit of /proc

// ProcessCPU returns the processor time of this process.
func ProcessCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// ChildrenCPU returns the processor time of all processes that this process has started, with their own
// children, or 0 where the system does not report it. It rises in steps of 10 ms for each of them.
func ChildrenCPU() time.Duration {
	parents, used := map[int]int{}, map[int]time.Duration{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has exited, and its time is that of its parent
		}
		pid, rest, _ := strings.Cut(string(stat), " ")
		fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:]) // a name may have spaces
		if len(fields) < 15 {
			continue
		}
		id, _ := strconv.Atoi(pid)
		parents[id], _ = strconv.Atoi(fields[1])
		for _, value := range fields[11:15] { // of the process, and of its children that have exited
			ticks, _ := strconv.ParseInt(value, 10, 64)
			used[id] += time.Duration(ticks) * tick
		}
	}
	var all time.Duration
	self := os.Getpid()
	for id := range parents {
		for at := parents[id]; at != 0; at = parents[at] {
			if at == self {
				all += used[id]
				break
			}
		}
	}
	return all
}

// ProcessRSS returns the resident memory of this process in bytes, or 0 where the
// system does not report it.
func ProcessRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}
