package luascript

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are texts by name.
type files map[string]string

func (f files) read(name string) (string, error) {
	text, ok := f[name]
	if !ok {
		return "", fmt.Errorf("no file %s", name)
	}
	return text, nil
}

func TestRequiredFilesComeFirstAndOnce(t *testing.T) {
	f := files{
		"tokens": "-- Tokens.\nA\n",
		"fast":   "-- The fast path.\n-- requires: tokens\nB\n",
		"queue":  "-- The queue.\n--\n-- requires: tokens\n--\n-- Bound: one.\nC\n",
		"main":   "-- The script.\n-- requires: fast, queue\nD\n",
	}
	script, err := Assemble("main", f.read)
	require.NoError(t, err)
	assert.Equal(t, f["tokens"]+f["fast"]+f["queue"]+f["main"], script)

	script, err = Assemble("tokens", f.read)
	require.NoError(t, err)
	assert.Equal(t, f["tokens"], script)
}

func TestBadRequirements(t *testing.T) {
	for text, want := range map[string]string{
		"-- requires: queues\n":                     `luascript: main requires "queues": no file queues`,
		"-- requires: one\n":                        `luascript: main requires "one": one requires "main": main requires itself`,
		"-- requires: main\n":                       `luascript: main requires "main": main requires itself`,
		"-- requires: leaf,\n":                      `luascript: main: "-- requires: leaf,": empty name`,
		"-- requires:\n":                            `luascript: main: "-- requires:": empty name`,
		"-- requires: leaf\n-- requires: leaf\n":    `luascript: main: "-- requires: leaf": want one list, in the header`,
		"-- A script.\nreturn 1\n-- requires: leaf": `luascript: main: "-- requires: leaf": want one list, in the header`,
	} {
		f := files{"main": text, "one": "-- requires: main\n", "leaf": "return 1\n"}
		script, err := Assemble("main", f.read)
		require.EqualError(t, err, want)
		assert.Empty(t, script)
	}
	_, err := Assemble("main", files{}.read)
	require.EqualError(t, err, "luascript: no file main")
}
