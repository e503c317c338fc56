//go:build !linux

// A sleep on systems other than Linux.

package main

import "time"

// sleepThread sleeps on a timer of the Go runtime, because only Linux offers more here.
func sleepThread(d time.Duration) { time.Sleep(d) }
