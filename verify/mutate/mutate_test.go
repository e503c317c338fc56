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

// The whole tool, on a small package whose tests leave out some of it.
func TestSample(t *testing.T) {
	var out bytes.Buffer
	o := options{out: &out, root: ".", only: regexp.MustCompile(""), skip: regexp.MustCompile("^$"), floor: 60}
	known, err := parseEquivalents(`
		testdata/sample Clamp
		- n < low
		+ n <= low
		= Both give the same.

		testdata/sample Clamp
		- n == low
		+ n != low
		= There is no such line any more.
	`)
	require.NoError(t, err)
	enough, err := o.one("./testdata/sample", known)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"SURVIVED  sample.go:17 Sum: 0  ->  1",
		"SURVIVED  sample.go:18 Sum: numbers[i] <= 10  ->  numbers[i] <= (10 + 1)",
		"SURVIVED  sample.go:28 Greeting: greetings++  ->  (nothing)",
		"SURVIVED  sample.go:28 Greeting: greetings++  ->  greetings--",
		`SURVIVED  sample.go:29 Greeting: prefix, mark := "Hello, ", len(name)+1  ->  prefix, mark := "Hello, ", len(name)+(1 - 1)`,
		`SURVIVED  sample.go:29 Greeting: prefix, mark := "Hello, ", len(name)+1  ->  prefix, mark := "Hello, ", len(name)-1`,
		"SURVIVED  sample.go:30 Greeting: mark*2 > 2  ->  mark*(2 - 1) > 2",
		"SURVIVED  sample.go:30 Greeting: mark*2 > 2  ->  mark*2 > (2 + 1)",
		"SURVIVED  sample.go:9 Clamp: n > high  ->  n >= high",
		"UNCOVERED sample.go:44 Untested: return n - 1  ->  return *new(int)",
		"UNCOVERED sample.go:44 Untested: return n - 1  ->  return n + 1",
		"UNCOVERED sample.go:44 Untested: return n - 1  ->  return n - (1 + 1)",
		"UNCOVERED sample.go:44 Untested: return n - 1  ->  return n - (1 - 1)",
		"testdata/sample  38 mutants: 24 killed, 0 timed out, 1 equivalent, 9 survived, 4 not executed by any test: 64.9 % killed",
		"testdata/sample: equivalent.txt has a mutant that is none any more: testdata/sample Clamp  ->  n == low  ->  n != low",
	}, lines)
	assert.True(t, enough)
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
