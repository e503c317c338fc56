package memstore

import (
	"errors"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Exporter = (*Store)(nil)

// Export implements [driver.Exporter]. A lease can be taken over by another client of the
// same Store only.
func (s *Store) Export(driver.Lease) ([]byte, error) { return nil, nil }

// Import implements [driver.Exporter].
func (s *Store) Import(l driver.Lease, state []byte) (driver.Lease, error) {
	if len(state) > 0 {
		return driver.Lease{}, errors.New("memstore: the lease is of another store")
	}
	return l, nil
}
