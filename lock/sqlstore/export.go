// Export and Import.

package sqlstore

import (
	"errors"
	"math"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Exporter = (*Store)(nil)

// Export implements [driver.Exporter]. The fields of a lease are all that another process needs.
func (s *Store) Export(l driver.Lease) ([]byte, error) { return nil, checkMode(l.Mode) }

// Import implements [driver.Exporter].
func (s *Store) Import(l driver.Lease, state []byte) (driver.Lease, error) {
	if err := checkRequest(l.Request); err != nil {
		return driver.Lease{}, err
	}
	switch {
	case len(state) > 0:
		return driver.Lease{}, errors.New("sqlstore: the lease is of another store")
	case l.Token == 0 || l.Token > math.MaxInt64:
		return driver.Lease{}, errors.New("sqlstore: the lease has the token of another store")
	}
	return l, nil
}
