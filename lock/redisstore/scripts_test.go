package redisstore

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

func TestRenewScript(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.lock, time.Second).Err())
	gone := tb.pre + "{gone}"
	list := tb.pre + "{list}"
	spoil(t, tb.rdb, list)
	require.NoError(t, tb.rdb.Set(t.Context(), "spoiled:"+list, 1, time.Minute).Err())
	lost, err := tb.call(renewScript, []string{gone, tb.k.lock, tb.k.lock, list, tb.k.lock, tb.k.lock},
		ttlMs, "a:1 1", "a:1 "+token, "b:1 "+token, "a:1 1", "a:1 "+token+"0", "a:1 "+token)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1), int64(-3), int64(4), int64(-5)}, lost, "negative if another owner has it")
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	assert.Zero(t, tb.rdb.Exists(t.Context(), gone).Val(), "the script creates no key")
	assert.Equal(t, time.Duration(-1), tb.pttl(list), "the foreign value keeps its lack of an expiry")
}

func TestInspectScript(t *testing.T) {
	tb := newTable(t)
	see := func() []any {
		v, err := tb.call(inspectScript, []string{tb.k.lock, tb.k.token, tb.k.queue, tb.k.places, tb.k.lock + metadataEnd})
		require.NoError(t, err)
		return v.([]any)
	}
	assert.Equal(t, []any{nil, int64(-2), int64(0), []any{}, nil, nil, []any{}}, see())
	token := tb.granted("a:1")
	for i := range 101 {
		tb.queued(fmt.Sprintf("o%d:1", i))
	}
	before := tb.dump()
	v := see()
	assert.Equal(t, before, tb.dump())
	assert.Equal(t, "a:1 "+token, v[0])
	assert.InDelta(t, ttlMs, v[1], 2000)
	assert.EqualValues(t, 101, v[2])
	assert.Len(t, v[3], 100)
	assert.Equal(t, "o0:1", v[3].([]any)[0])
	assert.Equal(t, token, v[4])
	assert.Nil(t, v[5])
	assert.Len(t, v[6], 100)
}

// The score of the length of a place has the time of its arrival as fraction. Requests of any length keep it.
func TestAPlaceKeepsItsTimeOfArrival(t *testing.T) {
	tb := newTable(t)
	waited := func() any {
		v, err := tb.call(inspectScript, []string{tb.k.lock, tb.k.token, tb.k.queue, tb.k.places, tb.k.lock + metadataEnd})
		require.NoError(t, err)
		return v.([]any)[6].([]any)[0]
	}
	const hourMs = 3_600_000
	tb.granted("a:1")
	tb.queued("b:1")
	assert.InDelta(t, 0, waited(), 2000)
	ago := float64(time.Now().UnixMilli()-hourMs) / 1e13
	for _, length := range []int{placeMs, 3000, 10_000, 60_000, placeMs} {
		tb.putEnd(tb.k.places, "b:1}", -float64(length)-ago)
		for range 3 {
			tb.queuedFor("b:1", placeMs)
			tb.queuedFor("b:1", length)
		}
		assert.InDelta(t, hourMs, waited(), 2000)
		stored := tb.rdb.ZScore(t.Context(), tb.k.places, "b:1}").Val()
		assert.InDelta(t, float64(length), -stored, 1, "the length")
	}
	for _, unknown := range []float64{-placeMs, 0, 5, math.Inf(-1), math.Inf(1), -1e300} { // of an earlier version, and foreign
		tb.putEnd(tb.k.places, "b:1}", unknown)
		assert.EqualValues(t, 0, waited())
		tb.queuedFor("b:1", placeMs)
		assert.EqualValues(t, 0, waited(), "a poll does not know it either")
		assert.InDelta(t, -placeMs, tb.rdb.ZScore(t.Context(), tb.k.places, "b:1}").Val(), 0)
	}
}

func TestOwnersOfAnyForm(t *testing.T) {
	for _, owner := range []string{"plain", "with spaces 12", "a:b:c:1", "\x00\xff:1", "1", " 1", ":", "%d%.*[^x]$"} {
		tb := newTable(t)
		client := owner
		if i := strings.LastIndexByte(owner, ':'); i >= 0 {
			client = owner[:i]
		}
		signals := tb.signals(client)
		tb.granted("a:1")
		tb.queued(owner)
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		token := tb.granted(owner)
		assert.Equal(t, owner+" "+token, tb.value())
		assert.Equal(t, []string{message(owner, token)}, signals(), "%q", owner)
		assert.EqualValues(t, 1, tb.release(owner, tombMs))
		assert.Empty(t, tb.value())
	}
}

func TestAScriptThatRequiresAnUnknownFilePanics(t *testing.T) {
	assert.PanicsWithError(t, "luascript: open lua/absent.lua: file does not exist", func() { newScript("absent") })
}

// Each script has a form for servers that want literal keys. In place of bulk scripts they get those of single locks.
func TestScriptsHaveALiteralForm(t *testing.T) {
	names, err := fs.Glob(luaFiles, "lua/*.lua")
	require.NoError(t, err)
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if name == "renew" || name == "release_all" {
			continue
		}
		sc := newScript(name)
		if sc.Literal != nil {
			sc = sc.Literal
		}
		assert.Empty(t, testredis.NotLiteral(sc.Source()), name)
	}
}

func TestSpreadDoesTheWorkOfUnpack(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	for _, n := range []int{1, 2, 8, 9, 10, 17, 1000} {
		got, err := rdb.Eval(t.Context(), spread+`
			local list = {}
			for i = 1, ARGV[1] do list[i] = i end
			return {{spread(list)}, {spread(list, #list, #list)}, {unpack(list)}}`, nil, n).Slice()
		require.NoError(t, err)
		assert.Equal(t, []any{got[2], []any{int64(n)}}, got[:2], n)
	}
}

// TestHeadersOfLuaFiles checks that each file can be read alone: its header has all sections,
// and it requires the files whose functions it calls.
func TestHeadersOfLuaFiles(t *testing.T) {
	names, err := fs.Glob(luaFiles, "lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	texts, definedIn := make(map[string]string), make(map[string]string)
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		text, err := fs.ReadFile(luaFiles, file)
		require.NoError(t, err)
		texts[name] = string(text)
		for _, found := range regexp.MustCompile(`(?m)^local function (\w+)`).FindAllStringSubmatch(texts[name], -1) {
			definedIn[found[1]] = name
		}
	}
	comment, call := regexp.MustCompile(`--.*|'[^'\n]*'`), regexp.MustCompile(`(?:^|[^.\w])(\w+)\(`)
	for name, text := range texts {
		header, _, _ := strings.Cut(text, "\n\n")
		sections := []string{"-- Bound:"}
		if strings.HasSuffix(strings.TrimSpace(text), "}") || strings.Contains(text, "\nreturn ") {
			sections = append(sections, "-- KEYS ", "-- ARGV ", "-- Returns ")
		}
		for _, section := range sections {
			assert.Contains(t, header, "\n"+section, name)
		}
		whole := rediskit.Source(luaFiles, name)
		for _, found := range call.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
			if definition := definedIn[found[1]]; definition != "" {
				assert.Contains(t, whole, "local function "+found[1]+"(", "%s.lua calls a function of %s.lua", name, definition)
			}
		}
	}
}
