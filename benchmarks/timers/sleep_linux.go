// A sleep on Linux without a timer of the Go runtime.

package main

import (
	"syscall"
	"time"
)

// sleepThread blocks the thread, without a timer of the Go runtime.
func sleepThread(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal only makes it shorter
}
