package doccheck_test

import (
	"bytes"
	"context"
	"log"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// mistakesFile has a row for each mistake, with what the library says in code spans: an error, or a line of
// the log. A "…" stands for any text.
const mistakesFile = "internal/doccheck/testdata/mistakes.txt"

var (
	mistakeRows = regexp.MustCompile(`(?m)^\| (.+?) \| (.+) \|$`)
	codeSpans   = regexp.MustCompile("`` (.+?) ``|`(.+?)`")
)

// mistakes are functions that make the mistakes of the table, and return what the library
// says.
var mistakes = func() map[string]func(t *testing.T) string {
	all := maps.Clone(lockMistakes)
	maps.Copy(all, redisMistakes)
	return all
}()

// TestTheTableOfMistakes makes the mistake of each row, and compares what the library says
// with the row.
func TestTheTableOfMistakes(t *testing.T) {
	inTable := map[string]bool{}
	for _, row := range mistakeRows.FindAllStringSubmatch(read(t, mistakesFile), -1) {
		inTable[row[1]] = true
		t.Run(row[1], func(t *testing.T) { checkMistake(t, row[1], row[2]) })
	}
	for what := range mistakes {
		assert.True(t, inTable[what], "no row of the table is %q", what)
	}
}

// checkMistake makes a mistake. What the library says must have the code spans of the
// row, in their order.
func checkMistake(t *testing.T, what, row string) {
	f := mistakes[what]
	require.NotNil(t, f, "nothing makes this mistake")
	said := f(t)
	spans := codeSpans.FindAllStringSubmatch(row, -1)
	require.NotEmpty(t, spans)
	rest := said
	for _, span := range spans {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(span[1]+span[2]), "…", ".*")
		at := regexp.MustCompile("(?m)" + pattern).FindStringIndex(rest)
		if at == nil {
			assert.Fail(t, "The library does not say so.", "row:     %s\nlibrary: %s", span[1]+span[2], said)
			return
		}
		rest = rest[at[1]:]
	}
}

// A syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// captureLog returns what the default logger writes until the end of the test.
func captureLog(t *testing.T) *syncBuffer {
	flags, out := log.Flags(), log.Writer()
	t.Cleanup(func() {
		log.SetFlags(flags)
		log.SetOutput(out)
	})
	buffer := new(syncBuffer)
	log.SetFlags(0)
	log.SetOutput(buffer)
	return buffer
}

// errorOf returns a mistake that is an error of f. It is called in virtual time with a client
// of a store in memory.
func errorOf(f func(ctx context.Context, c *lock.Client) error) func(*testing.T) string {
	return func(t *testing.T) (said string) {
		synctest.Test(t, func(t *testing.T) {
			client, err := lock.New(memstore.New(), nil)
			require.NoError(t, err)
			defer client.Close(context.Background())
			err = f(t.Context(), client)
			require.Error(t, err)
			said = err.Error()
		})
		return said
	}
}

// locked returns a handle of the mutex "a".
func locked(ctx context.Context, c *lock.Client) *lock.Held {
	held, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		panic(err)
	}
	return held
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }
