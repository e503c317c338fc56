package main

import (
	"os"
	"path/filepath"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// document writes the results, the chart and the tables into the folder of the
// documentation.
func (r *results) document(folder string) error {
	if err := r.save(filepath.Join(folder, "bench", "leases.json")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "bench", "leases.svg"), []byte(r.svg()), 0o644); err != nil {
		return err
	}
	return bench.Document(filepath.Join(folder, "BENCHMARKS-LEASES.md"), r.report())
}
