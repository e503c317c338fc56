package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runner ends at once with a status.
type runner int

func (r runner) Run() int { return int(r) }

// skipper counts skips.
type skipper int

func (s *skipper) Helper()              {}
func (s *skipper) Skipf(string, ...any) { *s++ }

func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Env, dir)
	Note("a version")
	Contended("peer", "lock", 5000, 1234567*time.Microsecond)
	HandOvers("peer", "lock", nil, []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond})
	var skips skipper
	Programs(&skips, "sh", "sh")
	assert.Zero(t, skips, "nothing is missing")
	Programs(&skips, "Lisp", "sh", "no such program", "none")
	Missing(&skips, "C", errors.New("it is old"))
	assert.EqualValues(t, 2, skips)

	assert.Equal(t, 3, Around(runner(3), "the/title").Run(), "the status of the tests")
	text, err := os.ReadFile(filepath.Join(dir, "the title.txt"))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"== the/title",
		"a version",
		"",
		"peer lock contended rounds of each side took",
		"peer lock 5000 1.23s",
		"",
		"peer lock hand-overs to the peer median p99 max to us median p99 max",
		"peer lock 0 - - - 3 2ms 3ms 3ms",
		"",
		"WARNING: NOT TESTED AGAINST C, because it is old",
		"WARNING: NOT TESTED AGAINST Lisp, because PATH has no no such program, none",
		"",
		"",
	}, words(string(text)))

	t.Setenv(Env, filepath.Join(dir, "none"))
	assert.Equal(t, 1, Around(runner(0), "title").Run(), "the report is not written")
}

// words returns the lines of a text with single spaces.
func words(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return lines
}

func TestRounds(t *testing.T) {
	*rounds = 100
	assert.Equal(t, 50, Rounds(2))
	assert.Equal(t, 2, Rounds(99), "one round of each of two threads")
}
