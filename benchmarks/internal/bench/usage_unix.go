//go:build unix

package bench

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcessCPU returns the processor time of this process.
func ProcessCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// MachineCPU returns the processor time of all processes of this machine and that
// of this process. all is 0 where the system does not tell.
func MachineCPU() (all, own time.Duration, err error) {
	own, err = ProcessCPU()
	stat, errStat := os.ReadFile("/proc/stat")
	if err != nil || errStat != nil {
		return 0, own, err
	}
	const tick = 10 * time.Millisecond // the unit of /proc/stat
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, value := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // name, idle, iowait; guests are part of user
			continue
		}
		ticks, _ := strconv.ParseInt(value, 10, 64)
		all += time.Duration(ticks) * tick
	}
	return all, own, nil
}

// ProcessRSS returns the resident memory of this process in bytes, or 0 where the
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
