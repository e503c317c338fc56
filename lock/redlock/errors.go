package redlock

import (
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var errGivenUp = fmt.Errorf("the owner was given up by an earlier release: %w", driver.ErrNotAcquired)

// failed returns an error that says which operation failed for which key.
func failed(verb, key string, err error) error { return rediskit.Failed("redlock", verb, key, err) }
