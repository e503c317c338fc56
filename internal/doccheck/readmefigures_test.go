package doccheck_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// figures reads the tables of a page that has benchmark results.
type figures struct {
	t     *testing.T
	lines []string
}

// cells returns the cells of a table row, without spaces and bold type.
func cells(row string) []string {
	all := strings.Split(strings.Trim(strings.ReplaceAll(row, "**", ""), "| "), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// table returns the header and the rows of the first table that has these columns.
func (f figures) table(columns ...string) (header []string, rows [][]string) {
	f.t.Helper()
	for i, line := range f.lines {
		missing := func(column string) bool { return !slices.Contains(cells(line), column) }
		if !strings.HasPrefix(line, "|") || slices.ContainsFunc(columns, missing) {
			continue
		}
		for _, row := range f.lines[i+2:] {
			if !strings.HasPrefix(row, "|") {
				break
			}
			rows = append(rows, cells(row))
		}
		return cells(line), rows
	}
	require.Fail(f.t, "no table", "columns %q", columns)
	return nil, nil
}

// figure returns the cell of a column in the first row that begins with these cells.
func (f figures) figure(header []string, rows [][]string, column string, first ...string) string {
	f.t.Helper()
	for _, row := range rows {
		if len(row) == len(header) && slices.Equal(row[:len(first)], first) {
			at := slices.Index(header, column)
			require.GreaterOrEqual(f.t, at, 0, column)
			return row[at]
		}
	}
	require.Fail(f.t, "no figure", "%q of %q", column, first)
	return ""
}

// TestTheReadmeHasTheFiguresOfTheTables checks that the README quotes the latest published
// measurements.
func TestTheReadmeHasTheFiguresOfTheTables(t *testing.T) {
	readme := read(t, "README.md")
	f := figures{t, strings.Split(read(t, "docs/BENCHMARKS.md"), "\n")}
	shows := func(row string, own string, others ...string) {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \|.*$`).FindString(readme)
		require.NotEmpty(t, line, row)
		all := cells(line)
		require.Len(t, all, 3)
		assert.Contains(t, strings.Fields(all[1]), own, "%s: leasewheel", row)
		for _, other := range others {
			assert.Regexp(t, regexp.QuoteMeta(other)+`\b`, all[2], "%s: others", row)
		}
	}

	header, rows := f.table("figure", "wheel", "heap", "redsync", "redislock", "rueidislock")
	for row, name := range map[string]string{
		"renew one of 100,000 leases, client CPU": "client CPU per renewal, µs",
		"the same, Redis CPU":                     "redis CPU per renewal, µs",
	} {
		var others []string
		for _, peer := range []string{"rueidislock", "redislock", "redsync"} {
			others = append(others, peer+" "+f.figure(header, rows, peer, name))
		}
		shows(row, f.figure(header, rows, "wheel", name), others...)
	}
	shows("goroutines for 100,000 leases", f.figure(header, rows, "wheel", "goroutines"))

	header, rows = f.table("clients", "client", "commands", "Jain")
	var others []string
	for _, peer := range []string{"rueidislock", "redislock", "redsync"} {
		others = append(others, peer+" "+f.figure(header, rows, "commands", "64", peer))
	}
	shows("hand a lock over among 64 waiters", f.figure(header, rows, "commands", "64", "leasewheel"), others...)

	header, rows = f.table("goroutines", "client", "pairs/s")
	others = nil
	for _, peer := range []string{"rueidislock", "redislock", "redsync"} {
		others = append(others, peer+" "+f.figure(header, rows, "pairs/s", "64", peer))
	}
	shows("lock and unlock, 64 goroutines, per second", f.figure(header, rows, "pairs/s", "64", "leasewheel"), others...)

	header, rows = f.table("work", "wheel", "heapqueue", "time.AfterFunc", "Netty HashedWheelTimer")
	const work = "schedule+stop, 1,000,000 pending, ns"
	shows("arm and stop a timer, 1,000,000 pending", f.figure(header, rows, "wheel", work),
		"`time.AfterFunc` "+f.figure(header, rows, "time.AfterFunc", work),
		"antlabs/timer "+f.figure(header, rows, "antlabs/timer", work),
		"Netty "+f.figure(header, rows, "Netty HashedWheelTimer", work))
}
