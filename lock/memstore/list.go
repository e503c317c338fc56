package memstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Lister = (*Store)(nil)

// List implements [driver.Lister]. One call looks at several hundred keys. The cursor is a
// position in the table of keys.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if err := basic.Cause(ctx); err != nil {
		return nil, "", err
	}
	position := uint64(0)
	if cursor != "" {
		if position, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("memstore: the cursor is not one of List: %q", cursor)
		}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, "", driver.ErrStoreClosed
	}
	some, position, more := s.keys.scan(position, nil)
	s.mu.Unlock()
	for _, k := range some {
		if strings.HasPrefix(k.key, prefix) && s.isHeld(k) {
			keys = append(keys, k.key)
		}
	}
	if more {
		next = strconv.FormatUint(position, 10)
	}
	return keys, next, nil
}

// isHeld reports whether a key has a holder.
func (s *Store) isHeld(k *state) bool {
	if _, ok := s.lockState(k); !ok {
		return false
	}
	defer s.unlock(k)
	return k.holders.n > 0
}
