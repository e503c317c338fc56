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
	late := 12.4
	r := &results{Machine: "2 × test", Rows: []row{
		{Client: ours, Fault: "cut", Overlap: 1, Round: 0},
		{Client: ours, Fault: "cut", Overlap: 7, Round: 1},
		{Client: ours, Fault: "cut", Overlap: 3, Round: 2, Told: &late},
		{Client: ours, Fault: "stop-two", Overlap: 0.4},
		{Client: ours, Fault: "cut", Overlap: 99, Round: 3, Failed: "no server"},
		{Client: "redsync", Fault: "cut", Never: true, Stale: 2, StaleFenced: 1},
		{Client: "redsync", Fault: "kill-1", Unserved: true, Free: 9000},
		{Client: "redsync", Fault: "late-release", Robbed: true},
		{Client: "redsync", Fault: "waiters", HandOvers: 400, PerHandOver: 3.25, Jain: 0.5, CPU: 12},
	}}
	dir := t.TempDir()
	page := filepath.Join(dir, "COMPARISON.md")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "img"), 0o755))
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- figures -->\nformer\n<!-- end of figures -->\nafter\n"), 0o600))
	require.NoError(t, r.document(dir))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, part := range []string{"before\n", "\nafter\n", "| 3 / 7", "| 12 ", "**never** 1/1", "9000; 1 not served", "0; 1 robbed", "| 100 ", "| 3.2 ", "| 0.50 ", "2 × test"} {
		assert.Contains(t, string(text), part)
	}
	assert.NotContains(t, string(text), "former")
	assert.NotContains(t, string(text), "99", "a round that was not played has no figures")
	assert.NotContains(t, string(text), "1/1, 1", "the picture has each figure of this question")

	assert.Contains(t, string(text), "](../verify/compare/README.md#the-faults)", "each column says how it was measured")
	for name, parts := range map[string][]string{
		"comparison":      {ours, ">3<"},
		"compare-told":    {">12<", "never 1/1"},
		"compare-stale":   {"1/1, 1"},
		"compare-free":    {">9000<"},
		"compare-waiters": {">100<", ">3.2<", ">0.50<"},
	} {
		assert.Contains(t, string(text), "](img/"+name+".svg)")
		svg, err := os.ReadFile(filepath.Join(dir, "img", name+".svg"))
		require.NoError(t, err)
		for _, part := range parts {
			assert.Contains(t, string(svg), part, name)
		}
		for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			if _, err := d.Token(); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
	}
	assert.NoFileExists(t, filepath.Join(dir, "img", "compare-kept.svg"), "no row is about it")
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
