package redisstore

import "github.com/leasewheel/leasewheel/lock/internal/rediskit"

// failed returns an error that says which operation failed for which key.
func failed(verb, key string, err error) error { return rediskit.Failed("redisstore", verb, key, err) }
