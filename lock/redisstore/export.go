// Import of a lease from another process.

package redisstore

import (
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Import implements [driver.Store]. Any store with the same servers and [Options.Prefix] can take
// over the lease.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	if err := checkImport(&l); err != nil {
		return driver.Lease{}, failed("import the lease of", l.Key, err)
	}
	imported := s.lease(l.Request, l.Token, l.Sent)
	imported.Unanswered = l.Unanswered
	return imported, nil
}

func checkImport(l *driver.Lease) error {
	if l.Token == 0 || l.Token > maxToken {
		return fmt.Errorf("the token must be 1 to %d, got %d", int64(maxToken), l.Token)
	}
	return check(&l.Request, true)
}
