// The samples of a run, and the medians of their figures.

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// results are the samples of one run, or of several runs on one machine.
type results struct {
	Environment environment `json:"environment"`
	Runs        []runInfo   `json:"runs"`
	Samples     []sample    `json:"samples"`
}

// sample is the result of one process.
type sample struct {
	job
	Values values `json:"values,omitempty"`
	Failed string `json:"failed,omitempty"` // why there are no values
}

// load reads files of results and joins them. The rounds of a file follow the
// rounds of the file before it. The first file sets the environment.
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
	before := r.rounds()
	for _, s := range next.Samples {
		s.Round += before
		r.Samples = append(r.Samples, s)
	}
	if len(r.Runs) == 0 {
		r.Environment = next.Environment
	}
	r.Runs = append(r.Runs, next.Runs...)
}

func (r *results) rounds() int {
	sum := 0
	for _, run := range r.Runs {
		sum += run.Rounds
	}
	return sum
}

// find returns the figure of a row for a peer in a round.
func (r *results) find(w row, peer string, round int) (float64, bool) {
	for _, s := range r.Samples {
		if s.Peer == peer && s.Round == round && s.Spec.matches(w.sample) {
			v, ok := s.Values[w.key]
			return v, ok
		}
	}
	return 0, false
}

// failure returns why a peer has no figure in a row, or "".
func (r *results) failure(w row, peer string) string {
	for _, s := range r.Samples {
		if s.Peer == peer && s.Failed != "" && s.Spec.matches(w.sample) {
			return s.Failed
		}
	}
	return ""
}

// matches tells whether s is the spec of a row. A quick run may have shortened it.
func (s spec) matches(row spec) bool {
	s.For = row.For
	return s == row
}

// figure returns the median of a row for a peer.
func (r *results) figure(w row, peer string) (float64, bool) {
	var all []float64
	for round := range r.rounds() {
		if v, ok := r.find(w, peer, round); ok {
			all = append(all, v)
		}
	}
	return median(all)
}

// ratio returns the median over the rounds of a's figure divided by b's.
func (r *results) ratio(w row, a, b string) (float64, bool) {
	var all []float64
	for round := range r.rounds() {
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

// bestPeer returns the Go peer with the lowest figure of a row.
func (r *results) bestPeer(w row) (name string, ok bool) {
	_, goPeers := w.subjects()
	lowest := math.Inf(1)
	for _, p := range goPeers {
		if v, found := r.figure(w, p); found && v < lowest {
			lowest, name = v, p
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
