// Package chance is where simulated schedules take their decisions from: numbers
// that hang on a seed and on what is decided, and on nothing else.
package chance

import (
	"math/rand/v2"
	"time"
)

// Mix makes one number of many, such that any change of one changes it all.
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

// Digest makes a number of a text.
func Digest(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return Mix(h)
}

// Dice have the throws that a schedule needs. They are for one goroutine.
type Dice struct{ *rand.Rand }

// New returns dice whose throws hang on the parts alone.
func New(parts ...uint64) Dice {
	return Dice{rand.New(rand.NewPCG(Mix(parts...), uint64(len(parts))))}
}

// Chance is true in so many of a thousand cases.
func (d Dice) Chance(perMille int) bool { return d.IntN(1000) < perMille }

// UpTo returns a duration from 1 ns to most.
func (d Dice) UpTo(most time.Duration) time.Duration {
	return 1 + time.Duration(d.Int64N(int64(max(most, 1))))
}

// Between returns a duration from least to most.
func (d Dice) Between(least, most time.Duration) time.Duration {
	return least + d.UpTo(most-least)
}

// Pick returns one of several.
func Pick[T any](d Dice, of ...T) T { return of[d.IntN(len(of))] }
