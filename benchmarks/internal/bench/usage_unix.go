//go:build unix

package bench

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcessCPU returns the processor time that this process has used.
func ProcessCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// MachineCPU returns the processor time that all processes of this machine have
// used, and that this one has. Where the system does not tell, the former is 0.
func MachineCPU() (all, own time.Duration, err error) {
	own, err = ProcessCPU()
	stat, errStat := os.ReadFile("/proc/stat")
	if err != nil || errStat != nil {
		return 0, own, err
	}
	const tick = 10 * time.Millisecond // the unit of that file on every Linux
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, value := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, waiting for a disk, guests (counted before)
			continue
		}
		ticks, _ := strconv.ParseInt(value, 10, 64)
		all += time.Duration(ticks) * tick
	}
	return all, own, nil
}

// ProcessRSS returns the resident memory of this process in bytes, 0 where the
// system does not tell.
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
