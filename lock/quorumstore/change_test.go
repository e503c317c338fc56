package quorumstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// failOnly makes exactly those servers fail whose bits are set.
func (s servers) failOnly(bits int) {
	for i, one := range s {
		if bits>>i&1 == 1 {
			one.losesRequests(down)
		} else {
			one.losesRequests(nil)
		}
	}
}

// While the stores of a quorum are changed, processes with the old and the new set run
// together. Sets that differ by one store exclude each other, whichever majority the
// first holder got.
func TestQuorumsThatDifferByOneStoreExcludeEachOther(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, grows := range []bool{true, false} {
			t.Run(fmt.Sprintf("of %d and %d, larger set is newer: %t", n, n+1, grows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all, large := newServers(t, n+1)
					before, after := all[:n].quorum(t), large
					if !grows {
						before, after = after, before
					}
					held := 0
					for bits := range 1 << len(all) {
						key := fmt.Sprint("k", bits)
						all.failOnly(bits)
						_, err := before.Acquire(context.Background(), request(key, "a"))
						synctest.Wait()
						if err != nil {
							continue
						}
						held++
						all.failOnly(0)
						_, err = after.Acquire(context.Background(), request(key, "b"))
						synctest.Wait()
						assert.ErrorIs(t, err, driver.ErrNotAcquired, "servers %b were down at first", bits)
					}
					assert.Positive(t, held)
				})
			})
		}
	}
}

// Permits of sets that differ by one store stay within the limit, in any order of
// requests.
func TestPermitsOfQuorumsThatDifferByOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		const asked = limit + 1
		all, large := newServers(t, 3)
		sets := []driver.Store{all[:2].quorum(t), large}
		most := 0
		for way := range 1 << (asked * (1 + len(all))) {
			granted := 0
			for i, rest := 0, way; i < asked; i++ {
				all.failOnly(rest >> 1 & (1<<len(all) - 1))
				r := request(fmt.Sprint("k", way), fmt.Sprint("owner", i))
				r.Mode, r.Attrs = driver.Permit, &driver.Attrs{Limit: limit}
				if _, err := sets[rest&1].Acquire(context.Background(), r); err == nil {
					granted++
				}
				synctest.Wait()
				rest >>= 1 + len(all)
			}
			assert.LessOrEqual(t, granted, limit, "order %b", way)
			most = max(most, granted)
		}
		assert.Equal(t, limit, most)
	})
}

// Replacing a store in one step makes two sets whose majorities may have no store in
// common.
func TestQuorumsThatDifferByTwoStoresDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 4)
		before := all[:3].quorum(t)
		after := servers{all[0], all[1], all[3]}.quorum(t)
		all.failOnly(0b0001)
		acquire(t, before, "k", "a")
		all.failOnly(0b0010)
		acquire(t, after, "k", "b")
		assert.Equal(t, 4, all.holding("k"), "two servers for each quorum")
	})
}
