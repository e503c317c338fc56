//go:build !unix

// The usage of the process on systems that are not Unix.

package demo

import "time"

func processCPU() time.Duration { return 0 }

func processRSS() int64 { return 0 }
