// Files: sections of documents, and results as JSON.

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Document replaces one section of a document with a report. A section stands
// between the lines "<!-- name -->" and "<!-- end of name -->".
func Document(path, section, report string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end of "+section+" -->"
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+report+end+after), 0o644)
}

// Save writes results to a file as JSON. It creates the folder of the file.
func Save(path string, results any) error {
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	return WriteFile(path, string(text)+"\n")
}

// ResultsFile is the file for the results of a program if the flags name none:
// results/name.json in the current folder, which git ignores. A quick run has no
// such file, so that it never replaces the results of a full run.
func ResultsFile(name string, quick bool) string {
	if quick {
		return ""
	}
	return filepath.Join("results", name+".json")
}
