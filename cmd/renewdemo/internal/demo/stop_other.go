//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

// Stopping processes on systems that are not Unix.

package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

const canStop = false

func stopSelf(time.Duration) (wake func() error, err error) { return nil, errors.ErrUnsupported }

func stopProcess(*os.Process) error { return errors.ErrUnsupported }

func continueProcess(*os.Process) error { return errors.ErrUnsupported }

func detach(*exec.Cmd) {}

func supervise(context.Context) (code int, err error) { return 0, errors.ErrUnsupported }
