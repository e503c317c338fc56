// The section and the charts of this program in the documents.

package main

import (
	"path/filepath"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// document writes the charts and the tables into the folder of the documents.
func (r *results) document(docs string) error {
	for _, c := range charts {
		if err := writeChart(docs, c.file, r.barChart(c)); err != nil {
			return err
		}
	}
	if err := writeChart(docs, "probe", r.probeChart().SVG()); err != nil {
		return err
	}
	return bench.Document(filepath.Join(docs, bench.Page), "timers", r.provenance()+r.page())
}

func writeChart(docs, name, svg string) error {
	if svg == "" {
		return nil
	}
	return bench.WriteFile(filepath.Join(docs, "bench", name+".svg"), svg)
}

// provenance says where, with what and how the figures were measured.
func (r *results) provenance() string {
	text := "\n" + r.Environment.String() + "\n"
	for _, run := range r.Runs {
		text += "- " + run.String() + "\n"
	}
	return text + "\n"
}
