// The comparison of the figures with two Go releases.

package main

import (
	"fmt"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// comparedRows are the rows in which two Go releases are compared.
var comparedRows = []string{
	"hot-0", "hot-1m", "par-1m", "replace", "reset", "fire", "rearm", "bytes", "gc",
}

// comparedPeers are the peers that run on both releases.
var comparedPeers = []string{"wheel", "heap", "std"}

// compare returns a table of the ratios of the figures with two Go releases.
func compare(a, b *results) string {
	head := []string{"work"}
	for _, p := range comparedPeers {
		head = append(head, titleOf(p))
	}
	table := bench.Table{head}
	for _, id := range comparedRows {
		w, err := rowNamed(id)
		must(err)
		cells := []string{w.Name}
		found := false
		for _, p := range comparedPeers {
			x, ok := a.figure(w, p)
			y, ok2 := b.figure(w, p)
			if !ok || !ok2 {
				cells = append(cells, "")
				continue
			}
			found = true
			cells = append(cells, fmt.Sprintf("%.2f", y/max(x, 1e-9)))
		}
		if found {
			table = append(table, cells)
		}
	}
	return fmt.Sprintf("%s ÷ %s, %d and %d rounds.\n\n%s", b.Environment.Go, a.Environment.Go, b.rounds(), a.rounds(), table)
}
