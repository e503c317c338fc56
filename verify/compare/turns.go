// What the sessions of a round believed, and what follows from it.

package main

import (
	"math"
	"slices"
	"time"
)

// span is a time from one instant to another.
type span struct{ from, to int64 }

func (s span) length() int64 { return max(0, s.to-s.from) }

func (s span) and(t span) span { return span{max(s.from, t.from), min(s.to, t.to)} }

// turn is one acquisition of a session.
type turn struct {
	session string
	asked   int64   // 0 if it never asked
	got     int64   // 0 if it did not get the lock
	until   int64   // the end of its belief: it was notified, began to release, or was killed
	gaveUp  int64   // the end of its wait if it did not get the lock
	token   uint64  // 0 means none
	writes  []int64 // the times of its writes
	stopped []span  // when its process stood still
}

// held is the time during which the session believed to hold the lock.
func (t *turn) held() span {
	if t.got == 0 {
		return span{}
	}
	return span{t.got, t.until}
}

// overlap returns for how long two sessions of processes that ran believed to hold the lock.
func overlap(turns []*turn) (total int64) {
	for i, a := range turns {
		for _, b := range turns[i+1:] {
			both := a.held().and(b.held())
			total += both.length()
			for _, s := range slices.Concat(a.stopped, b.stopped) {
				total -= both.and(s).length()
			}
		}
	}
	return total
}

// stale returns how many writes came from a session after a later holder had written. A resource that
// compares tokens refuses those whose token is lower than one that it has seen.
func stale(turns []*turn) (without, with int) {
	type write struct {
		at int64
		by *turn
	}
	var all []write
	for _, t := range turns {
		for _, at := range t.writes {
			all = append(all, write{at, t})
		}
	}
	slices.SortFunc(all, func(a, b write) int { return int(math.Copysign(1, float64(a.at-b.at))) })
	var latest *turn
	highest := uint64(0)
	for _, w := range all {
		if latest == nil || w.by.got > latest.got {
			latest = w.by
		}
		refused := w.by.token < highest
		if !refused {
			highest = w.by.token
		}
		if w.by.got < latest.got {
			without++
			if !refused {
				with++
			}
		}
	}
	return without, with
}

// free returns for how long somebody waited while nobody believed to hold the lock.
func free(turns []*turn) (total int64) {
	type edge struct {
		at      int64
		wait    int
		holding int
	}
	var edges []edge
	for _, t := range turns {
		end := t.got
		if t.got == 0 {
			end = t.gaveUp
		}
		if t.asked != 0 && end > t.asked {
			edges = append(edges, edge{t.asked, 1, 0}, edge{end, -1, 0})
		}
		if h := t.held(); h.length() > 0 {
			edges = append(edges, edge{h.from, 0, 1}, edge{h.to, 0, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return int(math.Copysign(1, float64(a.at-b.at))) })
	waiting, holding := 0, 0
	for i, e := range edges {
		if i > 0 && waiting > 0 && holding == 0 {
			total += e.at - edges[i-1].at
		}
		waiting, holding = waiting+e.wait, holding+e.holding
	}
	return total
}

// jain returns Jain's index of fairness: 1 if all counts are equal, 1/n if one has everything.
func jain(counts []int) float64 {
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

func millis(ns int64) float64 { return math.Round(float64(ns)/1e4) / 100 }

func nanos(d time.Duration) int64 { return d.Nanoseconds() }
