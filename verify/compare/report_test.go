package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePageHasTheFiguresOfTheRows(t *testing.T) {
	early, later, late := 5.0, 20.0, 12.4
	r := &results{Machine: "2 × test", Rows: []row{
		{Client: ours, Fault: "cut", Overlap: 1, Round: 0, Told: &early},
		{Client: ours, Fault: "cut", Overlap: 7, Round: 1, Told: &later},
		{Client: ours, Fault: "cut", Overlap: 3, Round: 2, Told: &late},
		{Client: ours, Fault: "stop-two", Overlap: 0.4},
		{Client: ours, Fault: "cut", Overlap: 99, Round: 3, Failed: "no server"},
		{Client: "redsync", Fault: "cut", Never: true, Stale: 2, StaleFenced: 1},
		{Client: "redsync", Fault: "kill", Unserved: true, Free: 9000},
		{Client: "redsync", Fault: "waiters", HandOvers: 400, PerHandOver: 3.25, Jain: 0.5},
	}}
	dir := t.TempDir()
	page := filepath.Join(dir, "COMPARISON.md")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "img"), 0o755))
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- figures -->\nformer\n<!-- end of figures -->\nafter\n"), 0o600))
	require.NoError(t, r.document(dir))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, part := range []string{"before\n", "\nafter\n", "| 3 / 7", "| 12 / 20 ", "**never** 1/1", "9000; 1 not served", "1/1, 1", "| 100 ", "| 3.2 ", "| 0.50 ", "2 × test"} {
		assert.Contains(t, string(text), part)
	}
	assert.NotContains(t, string(text), "former")
	assert.NotContains(t, string(text), "99", "a round that was not played has no figures")
	assert.Contains(t, string(text), "](img/"+pictureFile+")")
	svg, err := os.ReadFile(filepath.Join(dir, "img", pictureFile))
	require.NoError(t, err)
	assert.Contains(t, string(svg), ">"+ours+"<")
	assert.Contains(t, string(svg), ">3<")
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.Error(t, r.failure())
	require.NoError(t, r.broken(), "promises of others")
	r.Rows[0].StaleFenced = 1
	require.Error(t, r.broken())
}

func TestEachFaultIsDescribed(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "## The faults")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, f := range faults() {
		assert.Regexp(t, `(?m)^\| ([^|]*, )?(and )?`+f.title+`[ ,]`, section)
	}
}
