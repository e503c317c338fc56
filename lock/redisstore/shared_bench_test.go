package redisstore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// BenchmarkMembers is what a batch of so many members costs, alone and beside
// another that is as large.
func BenchmarkMembers(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		for _, beside := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/beside=%v", n, beside), func(b *testing.B) {
				s, _ := sharedStore(b)
				batch := func(word string) lock.Request {
					members := make([]string, n)
					for i := range members {
						members[i] = fmt.Sprintf("%s %05d", word, i)
					}
					return moded("k", lock.Members, lock.Extra{Members: members})
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

// BenchmarkSharedPair is one acquire and one release in each mode, by one
// goroutine.
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
