package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The tables of BENCHMARKS.md stand between these lines; the rest is written by
// hand.
const (
	reportBegins = "<!-- report -->\n"
	reportEnds   = "<!-- end of report -->"
)

// document writes the results, the charts and the tables into the folder of the
// docs.
func (r *results) document(docs string) error {
	folder := filepath.Join(docs, "bench")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := r.save(filepath.Join(folder, "results.json")); err != nil {
		return err
	}
	if err := r.draw(folder); err != nil {
		return err
	}
	page := filepath.Join(docs, "BENCHMARKS.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), reportBegins)
	_, after, ok2 := strings.Cut(rest, reportEnds)
	if !ok || !ok2 {
		return errors.New(page + " has no place for the report")
	}
	return os.WriteFile(page, []byte(before+reportBegins+r.where()+r.report()+reportEnds+after), 0o644)
}

// where says what the figures were measured on and with.
func (r *results) where() string {
	a := r.About
	return fmt.Sprintf("\n%s, %s. %s.\n\n    %s\n\n%d rounds, %.0f minutes.\n"+
		"A look at the clock takes %.0f ns here, locking and unlocking a mutex %.0f: schedule+cancel needs one\n"+
		"of the first and two of the second.\n\n",
		a.Machine, a.OS, strings.Join(a.Versions, "\n- "), a.Command, a.Rounds, a.Minutes, a.Clock, a.Lock)
}
