package redisstore

import (
	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Addresser = (*Store)(nil)

// Addresses implements [driver.Addresser]. It returns the address of the server, or the
// addresses that the cluster client was given. It does not know servers behind Sentinel.
func (s *Store) Addresses() []string {
	if s.redis == nil {
		return nil
	}
	return s.redis.Addresses()
}
