package renewal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// The methods that a holder calls often do not allocate.
func TestMethodsOfAnEntryDoNotAllocate(t *testing.T) {
	w, _, _ := benchWatchdog(t, nil)
	e := benchEntry(t, w)
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
		store := new(benchStore)
		w, err := renewal.New(engine, renewal.Renewer[int](store), nil)
		require.NoError(t, err)
		const leases = 10_000
		for range leases {
			benchEntry(t, w)
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
