//go:build !unix

package demo

import "time"

func processCPU() time.Duration { return 0 }

func processRSS() int64 { return 0 }
