// Import of a lease from another process.

package sqlstore

import (
	"errors"
	"math"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Import implements [driver.Store]. The fields of a lease are all that another process needs.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	if err := checkRequest(l.Request); err != nil {
		return driver.Lease{}, err
	}
	if l.Token == 0 || l.Token > math.MaxInt64 {
		return driver.Lease{}, errors.New("sqlstore: the lease has the token of another store")
	}
	return l, nil
}
