//go:build !unix

// Processor time and memory on systems that are not Unix.

package bench

import (
	"errors"
	"time"
)

func ProcessCPU() (time.Duration, error) { return 0, errors.ErrUnsupported }

func MachineCPU() (all, own time.Duration, err error) { return 0, 0, errors.ErrUnsupported }

func ChildrenCPU() time.Duration { return 0 }

func ProcessRSS() int64 { return 0 }
