package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// results are all samples of one run, and where it was.
type results struct {
	About   about    `json:"about"`
	Samples []sample `json:"samples"`
}

// sample is what one process found.
type sample struct {
	job
	Values values `json:"values"`
}

// load reads files of results. Those of one machine that were measured piece by
// piece become one: the rounds of a file follow those of the file before.
func load(files []string) (*results, error) {
	all := new(results)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := new(results)
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all.add(r)
	}
	return all, nil
}

func (r *results) add(next *results) {
	for _, s := range next.Samples {
		s.Round += r.About.Rounds
		r.Samples = append(r.Samples, s)
	}
	before := r.About
	r.About = next.About
	r.About.Rounds += before.Rounds
	r.About.Minutes += before.Minutes
	if before.Command != "" {
		r.About.Command = before.Command + "\n    " + next.About.Command
	}
	if len(before.Versions) > len(next.About.Versions) {
		r.About.Versions = before.Versions
	}
}

func (r *results) save(file string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// find returns the figure of a row for a peer in a round.
func (r *results) find(w row, peer string, round int) (float64, bool) {
	for _, s := range r.Samples {
		if s.Peer != peer || s.Round != round || !s.Spec.samples(w.sample) {
			continue
		}
		v, ok := s.Values[w.key]
		return v, ok
	}
	return 0, false
}

// samples tells whether s is the sample that a row asks for, be it cut short.
func (s spec) samples(asked spec) bool {
	s.For = asked.For
	return s == asked
}

// figure is the median of a row for a peer; false if there is none.
func (r *results) figure(w row, peer string) (float64, bool) {
	var all []float64
	for round := range r.About.Rounds {
		if v, ok := r.find(w, peer, round); ok {
			all = append(all, v)
		}
	}
	return median(all)
}

// ratio is the median over the rounds of a's figure to b's.
func (r *results) ratio(w row, a, b string) (float64, bool) {
	var all []float64
	for round := range r.About.Rounds {
		x, ok := r.find(w, a, round)
		y, ok2 := r.find(w, b, round)
		if !ok || !ok2 {
			continue
		}
		switch {
		case math.Abs(x-y) < w.noise:
			all = append(all, 1)
		case y > 0:
			all = append(all, x/y)
		}
	}
	return median(all)
}

// rival returns the best of the Go peers of a row, that with the lowest figure.
func (r *results) rival(w row) (name string, ok bool) {
	_, rivals := w.who()
	best := math.Inf(1)
	for _, p := range rivals {
		if v, found := r.figure(w, p); found && v < best {
			best, name = v, p
		}
	}
	return name, name != ""
}

func median(all []float64) (float64, bool) {
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	mid := len(all) / 2
	if len(all)%2 == 1 {
		return all[mid], true
	}
	return (all[mid-1] + all[mid]) / 2, true
}
