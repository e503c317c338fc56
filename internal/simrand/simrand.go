// Package simrand draws the random numbers of simulated schedules. A number depends on the
// seed and on what it is drawn for, and not on the order in which goroutines run.
package simrand

import (
	"math/rand/v2"
	"time"
)

// Mix returns a hash of the parts: any change of one part changes all of it.
func Mix(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, part := range parts {
		h ^= part
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
		h *= 0xc4ceb9fe1a85ec53
		h ^= h >> 29
	}
	return h
}

// Hash returns a hash of a text.
func Hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return Mix(h)
}

// Rand is a stream of random numbers with the draws that a schedule needs. It is not safe for
// concurrent use.
type Rand struct{ *rand.Rand }

// New returns a stream that depends on the parts alone.
func New(parts ...uint64) Rand {
	return Rand{rand.New(rand.NewPCG(Mix(parts...), uint64(len(parts))))}
}

// Chance returns true with a probability in thousandths.
func (r Rand) Chance(perMille int) bool { return r.IntN(1000) < perMille }

// UpTo returns a duration from 1 ns to most.
func (r Rand) UpTo(most time.Duration) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(max(most, 1))))
}

// Between returns a duration from least to most.
func (r Rand) Between(least, most time.Duration) time.Duration {
	return least + r.UpTo(most-least)
}

// Pick returns one of several values.
func Pick[T any](r Rand, of ...T) T { return of[r.IntN(len(of))] }
