package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The tables stand in a document between these lines.
const (
	ReportBegins = "<!-- report -->\n"
	ReportEnds   = "<!-- end of report -->"
)

// Document writes a report into a document, in place of the one that it has.
func Document(path, report string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), ReportBegins)
	_, after, ended := strings.Cut(rest, ReportEnds)
	if !begun || !ended {
		return fmt.Errorf("%s has no lines %q and %q", path, ReportBegins, ReportEnds)
	}
	return os.WriteFile(path, []byte(before+ReportBegins+report+ReportEnds+after), 0o644)
}

// Save writes results into a file, whose folder is made if it is not there.
func Save(path string, results any) error {
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
