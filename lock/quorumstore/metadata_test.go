package quorumstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

func TestAMajorityConfirmsMetadata(t *testing.T) {
	errDown := errors.New("the server is down")
	for failing, want := range []error{nil, nil, errDown, errDown} {
		synctest.Test(t, func(t *testing.T) {
			var members []driver.Store
			for i := range 3 {
				members = append(members, (&locktest.Faulty{Before: func(_ context.Context, op locktest.Op) error {
					if op == locktest.SetMetadata && i < failing {
						return errDown
					}
					return nil
				}}).Over(memstore.New()))
			}
			q, err := quorumstore.New(members...)
			require.NoError(t, err)
			r := driver.Request{Key: "k", Owner: "o:1", TTL: time.Minute, Attrs: &driver.Attrs{Metadata: "first"}}
			l, err := q.Acquire(t.Context(), r)
			require.NoError(t, err)
			l.Request = r
			synctest.Wait() // until all members have answered
			err = q.SetMetadata(t.Context(), l, "second")
			require.ErrorIs(t, err, want, "%d members fail", failing)
			if want == nil {
				info, err := q.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.Equal(t, "second", info.Holders[0].Metadata)
			}
			require.NoError(t, q.Close())
		})
	}
}
