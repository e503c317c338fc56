// The rows of all rounds.

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// results are the rows, and where they were measured.
type results struct {
	Machine string
	Load    string // the load averages of 1, 5 and 15 minutes at the end
	Rows    []row
}

func (r *results) load(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, r)
}

// save writes one line for each row.
func (r *results) save(path string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"Machine\": %q, \"Load\": %q, \"Rows\": [\n", r.Machine, r.Load)
	for i, row := range r.Rows {
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		b.Write(line)
		if i < len(r.Rows)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// replace replaces the rows of the clients and faults that were played.
func (r *results) replace(rows []row) {
	type pair struct{ client, fault string }
	played := map[pair]bool{}
	for _, n := range rows {
		played[pair{n.Client, n.Fault}] = true
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(o row) bool { return played[pair{o.Client, o.Fault}] })
	r.Rows = append(r.Rows, rows...)
	slices.SortStableFunc(r.Rows, func(a, b row) int {
		return cmp.Or(clientOrder(a.Client)-clientOrder(b.Client), faultOrder(a.Fault)-faultOrder(b.Fault), a.Round-b.Round)
	})
}

func clientOrder(name string) int {
	return slices.IndexFunc(candidates(), func(c *candidate) bool { return c.name == name })
}

func faultOrder(name string) int {
	return slices.IndexFunc(faults(), func(f *fault) bool { return f.name == name })
}

// of returns the rows of a client and a fault that were played.
func (r *results) of(client, fault string) []row {
	var found []row
	for _, row := range r.Rows {
		if row.Client == client && row.Fault == fault && row.Failed == "" {
			found = append(found, row)
		}
	}
	return found
}

// broken returns an error that names the rounds in which this project did not keep a promise.
func (r *results) broken() error {
	var errs []error
	for _, row := range r.Rows {
		if row.Client == ours && (row.Never || row.Unserved || row.StaleFenced > 0) {
			errs = append(errs, fmt.Errorf("a broken promise: %+v", row))
		}
	}
	return errors.Join(errs...)
}

// failure returns an error that names the rounds that could not be played.
func (r *results) failure() error {
	var errs []error
	for _, row := range r.Rows {
		if row.Failed != "" {
			errs = append(errs, fmt.Errorf("%s, %s, round %d: %s", row.Client, row.Fault, row.Round, row.Failed))
		}
	}
	return errors.Join(errs...)
}
