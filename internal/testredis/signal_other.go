//go:build !unix

package testredis

import (
	"errors"
	"fmt"
)

var errNoSignals = fmt.Errorf("testredis: a server cannot be stopped on this system: %w", errors.ErrUnsupported)

func (p *process) stop() error { return errNoSignals }
func (p *process) cont() error { return errNoSignals }
