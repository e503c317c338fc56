//go:build !unix

package main

import (
	"errors"
	"time"
)

func processCPU() (time.Duration, error) { return 0, errors.ErrUnsupported }

func machineCPU() (all, own time.Duration, err error) { return 0, 0, errors.ErrUnsupported }

func processRSS() int64 { return 0 }
