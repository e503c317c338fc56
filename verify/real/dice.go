package real

import (
	"math/rand/v2"
	"time"
)

// dice is a source of chance, for one goroutine.
type dice struct{ *rand.Rand }

func newDice(seed, stream uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

// chance is true in so many of a thousand cases.
func (d dice) chance(perMille int) bool { return d.IntN(1000) < perMille }

// upTo returns a duration from 1 ns to most.
func (d dice) upTo(most time.Duration) time.Duration { return 1 + time.Duration(d.Int64N(int64(most))) }

// pick returns one of several.
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }
