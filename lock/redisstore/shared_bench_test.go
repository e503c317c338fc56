package redisstore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// BenchmarkMembers measures an acquire and a release of a batch with n members, alone and
// beside another batch of the same size.
func BenchmarkMembers(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		for _, beside := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/beside=%v", n, beside), func(b *testing.B) {
				s, _ := sharedStore(b)
				batch := func(word string) driver.Request {
					members := make([]string, n)
					for i := range members {
						members[i] = fmt.Sprintf("%s %05d", word, i)
					}
					return moded("k", driver.Members, driver.Attrs{Members: members})
				}
				if beside {
					acquire(b, s, batch("other"))
				}
				r := batch("member")
				for b.Loop() {
					l, err := s.Acquire(b.Context(), r)
					require.NoError(b, err)
					require.NoError(b, s.Release(b.Context(), l))
				}
			})
		}
	}
}

// BenchmarkSharedPair measures an acquire and a release in each mode, by one goroutine.
func BenchmarkSharedPair(b *testing.B) {
	for _, r := range allModes("k") {
		b.Run(r.Mode.String(), func(b *testing.B) {
			s, _ := sharedStore(b)
			for b.Loop() {
				l, err := s.Acquire(b.Context(), r)
				require.NoError(b, err)
				require.NoError(b, s.Release(b.Context(), l))
			}
		})
	}
}
