// The metadata of exclusive locks.

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// metadataTTL is how long the server keeps metadata of SetMetadata. Nothing extends it, so it
// outlasts any leadership in practice. The release of the lock deletes them before; after a crash of the
// leader, the release by the next one does.
const metadataTTL = 365 * 24 * time.Hour

// SetMetadata implements [driver.Store] in mode Exclusive. The server forgets the
// metadata after a year, and Inspect then shows those of the Acquire again.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	return failed("set the metadata of", l.Key, s.setMetadata(ctx, l, metadata))
}

func (s *Store) setMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("metadata in mode %v: %w", l.Mode, errors.ErrUnsupported)
	}
	st, err := s.stateOf(&l)
	if err != nil {
		return err
	}
	key, token := st.key+metadataEnd, strconv.FormatUint(l.Token, 10)
	reply, err := s.redis.Run(ctx, metadataScript, l.Owner, []any{nil, nil, 2, &st.key, &key, &st.value, &token, &metadata, metadataTTL.Milliseconds()})
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}
