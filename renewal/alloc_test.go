package renewal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// countingStore renews every lease and counts the renewals.
type countingStore struct{ renewed atomic.Int64 }

func (s *countingStore) Renew(_ context.Context, batch []int, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	s.renewed.Add(int64(len(batch)))
	return nil
}

// The methods that a holder calls often do not allocate.
func TestMethodsOfAnEntryDoNotAllocate(t *testing.T) {
	w, err := renewal.New(silent{}, renewal.Renewer[int](new(countingStore)), nil)
	require.NoError(t, err)
	defer func() { _, _ = w.Close(t.Context()) }()
	e, err := w.Register(1, renewal.Grant{TTL: ttl, Sent: time.Now()})
	require.NoError(t, err)
	e.Done() // the first call makes the channel
	for name, method := range map[string]func(){
		"Valid":    func() { e.Valid() },
		"Deadline": func() { e.Deadline() },
		"Err":      func() { _ = e.Err() },
		"Done":     func() { e.Done() },
		"Renewed":  func() { _ = e.Update(renewal.Grant{Sent: time.Now()}, nil) },
	} {
		assert.Zero(t, testing.AllocsPerRun(1000, method), name)
	}
	require.NoError(t, e.Err())
}

// A renewal allocates nothing per lease. Each batch allocates a few objects, such as its
// context. The 10,000 leases of the test are renewed in at least 50 batches per period.
func TestARenewalDoesNotAllocatePerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		store := new(countingStore)
		w, err := renewal.New(engine, renewal.Renewer[int](store), nil)
		require.NoError(t, err)
		const leases = 10_000
		for range leases {
			_, err := w.Register(1, renewal.Grant{TTL: ttl, Sent: time.Now()})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute) // several periods: batches have grown to their size
		before := store.renewed.Load()
		allocs := testing.AllocsPerRun(5, func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
		})
		require.EqualValues(t, 6*leases, store.renewed.Load()-before, "one renewal per lease and period")
		assert.Less(t, allocs/leases, 0.1, "allocations per renewal")
		t.Logf("%.4f allocations per renewal", allocs/leases)
		_, err = w.Close(t.Context())
		require.NoError(t, err)
	})
}
