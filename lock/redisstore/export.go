// This file is about Export and Import.

package redisstore

import (
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Exporter = (*Store)(nil)

// Export implements [driver.Exporter]. Any store with the same servers and
// [Options.Prefix] can take over the lease.
func (s *Store) Export(driver.Lease) ([]byte, error) { return nil, nil }

// Import implements [driver.Exporter].
func (s *Store) Import(l driver.Lease, state []byte) (driver.Lease, error) {
	if err := checkImport(&l, state); err != nil {
		return driver.Lease{}, failed("import the lease of", l.Key, err)
	}
	imported := s.lease(l.Request, l.Token, l.Sent)
	imported.Unanswered = l.Unanswered
	return imported, nil
}

func checkImport(l *driver.Lease, state []byte) error {
	switch {
	case len(state) > 0:
		return errors.New("the lease is of another store")
	case l.Token == 0 || l.Token > maxToken:
		return fmt.Errorf("the token must be 1 to %d, got %d", int64(maxToken), l.Token)
	}
	return checkAcquire(&l.Request)
}
