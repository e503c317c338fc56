// The section and the chart of this program in the documents.

package main

import (
	"path/filepath"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// document writes the chart and the tables into the folder of the documents.
func (r *results) document(docs string) error {
	if err := bench.WriteFile(filepath.Join(docs, "bench", "leases.svg"), r.svg()); err != nil {
		return err
	}
	return bench.Document(filepath.Join(docs, bench.Page), "leases", "\n"+r.report())
}
