package sim

import (
	"math/rand/v2"
	"time"
)

// mix makes one number of many, such that any change of one changes it all.
func mix(parts ...uint64) uint64 {
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

// digest makes a number of a text.
func digest(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return mix(h)
}

// dice is a source of chance with the throws that a schedule needs.
type dice struct{ *rand.Rand }

func newDice(parts ...uint64) dice {
	return dice{rand.New(rand.NewPCG(mix(parts...), uint64(len(parts))))}
}

// chance is true in so many of a thousand cases.
func (d dice) chance(perMille int) bool { return d.IntN(1000) < perMille }

// upTo returns a duration from 1 ns to most.
func (d dice) upTo(most time.Duration) time.Duration {
	return 1 + time.Duration(d.Int64N(int64(max(most, 1))))
}

// between returns a duration from least to most.
func (d dice) between(least, most time.Duration) time.Duration {
	return least + d.upTo(most-least)
}

// pick returns one of several.
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }
