package redisstore

import (
	"slices"

	"github.com/leasewheel/leasewheel/lock"
)

var _ lock.Addresser = (*Store)(nil)

// Addresses implements [lock.Addresser]: the address of the server, or those that
// the cluster client was given. Those behind Sentinel are not known.
func (s *Store) Addresses() []string {
	switch {
	case s.cluster != nil:
		return slices.Clone(s.cluster.seeds)
	case s.one == nil || s.one.addr == failoverAddr:
		return nil
	}
	return []string{s.one.addr}
}
