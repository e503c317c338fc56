package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSample runs the tool on a small package whose tests leave some of it untested.
func TestSample(t *testing.T) {
	var out bytes.Buffer
	o := options{out: &out, root: ".", only: regexp.MustCompile(""), skip: regexp.MustCompile("^$")}
	entries, err := parseEquivalents(`
		testdata/sample Clamp
		- n < low
		+ n <= low
		= Both return the same number.

		testdata/sample Clamp
		- n == low
		+ n != low
		= Clamp has no such condition.
	`)
	require.NoError(t, err)
	score, err := o.runPackage("./testdata/sample", entries)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"NOT COVERED sample.go:44 Untested: return n - 1  ->  return *new(int)",
		"NOT COVERED sample.go:44 Untested: return n - 1  ->  return n + 1",
		"NOT COVERED sample.go:44 Untested: return n - 1  ->  return n - (1 + 1)",
		"NOT COVERED sample.go:44 Untested: return n - 1  ->  return n - (1 - 1)",
		"SURVIVED    sample.go:17 Sum: 0  ->  1",
		"SURVIVED    sample.go:18 Sum: numbers[i] <= 10  ->  numbers[i] <= (10 + 1)",
		"SURVIVED    sample.go:28 Greeting: greetings++  ->  (nothing)",
		"SURVIVED    sample.go:28 Greeting: greetings++  ->  greetings--",
		`SURVIVED    sample.go:29 Greeting: prefix, mark := "Hello, ", len(name)+1  ->  prefix, mark := "Hello, ", len(name)+(1 - 1)`,
		`SURVIVED    sample.go:29 Greeting: prefix, mark := "Hello, ", len(name)+1  ->  prefix, mark := "Hello, ", len(name)-1`,
		"SURVIVED    sample.go:30 Greeting: mark*2 > 2  ->  mark*(2 - 1) > 2",
		"SURVIVED    sample.go:30 Greeting: mark*2 > 2  ->  mark*2 > (2 + 1)",
		"SURVIVED    sample.go:9 Clamp: n > high  ->  n >= high",
		"equivalent.txt: no such mutant: testdata/sample Clamp: n == low  ->  n != low",
		"testdata/sample  38 mutants: 24 killed, 0 timed out, 1 equivalent, 9 survived, 4 not covered; mutation score 64.9 %",
	}, lines)
	assert.InDelta(t, 64.9, score, 0.1)
}

func TestLuaMutants(t *testing.T) {
	s := findLua("a.lua", `-- if this == that
local function first(x)
  if x == 1 and x < 5 then
    redis.call('SET', KEYS[1], 'a == b')
  end
end
return first(7)
`)
	var all []string
	for _, m := range s.mutants {
		all = append(all, m.String())
	}
	assert.Equal(t, []string{
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x ~= 1 and x < 5 then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == 1 or x < 5 then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == 1 and x <= 5 then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == (1 + 1) and x < 5 then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == (1 - 1) and x < 5 then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == 1 and x < (5 + 1) then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if x == 1 and x < (5 - 1) then",
		"a.lua:3 a.lua.first: if x == 1 and x < 5 then  ->  if not (x == 1 and x < 5) then",
		"a.lua:4 a.lua.first: redis.call('SET', KEYS[1], 'a == b')  ->  redis.call('SET', KEYS[(1 + 1)], 'a == b')",
		"a.lua:4 a.lua.first: redis.call('SET', KEYS[1], 'a == b')  ->  redis.call('SET', KEYS[(1 - 1)], 'a == b')",
		"a.lua:4 a.lua.first: redis.call('SET', KEYS[1], 'a == b')  ->  redis.call('SET', 'a == b')",
		"a.lua:4 a.lua.first: redis.call('SET', KEYS[1], 'a == b')  ->  redis.call('SET', KEYS[1])",
		"a.lua:4 a.lua.first: redis.call('SET', KEYS[1], 'a == b')  ->  (nothing)",
		"a.lua:7 a.lua.(body): return first(7)  ->  return first((7 + 1))",
		"a.lua:7 a.lua.(body): return first(7)  ->  return first((7 - 1))",
		"a.lua:7 a.lua.(body): return first(7)  ->  (nothing)",
	}, all)
}
