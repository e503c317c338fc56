package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The tables stand in the document between these lines.
const (
	reportBegins = "<!-- report -->\n"
	reportEnds   = "<!-- end of report -->"
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
	path := filepath.Join(folder, "BENCHMARKS-LEASES.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), reportBegins)
	_, after, ended := strings.Cut(rest, reportEnds)
	if !begun || !ended {
		return fmt.Errorf("%s has no lines %q and %q", path, reportBegins, reportEnds)
	}
	return os.WriteFile(path, []byte(before+reportBegins+r.report()+reportEnds+after), 0o644)
}
