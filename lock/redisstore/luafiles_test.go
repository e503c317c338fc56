package redisstore

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/luascript"
)

func TestAScriptThatRequiresAnUnknownFilePanics(t *testing.T) {
	assert.PanicsWithValue(t, "redisstore: luascript: open lua/absent.lua: file does not exist", func() { newScript("absent") })
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
		texts[name], err = readLua(name)
		require.NoError(t, err)
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
		whole, err := luascript.Assemble(name, readLua)
		require.NoError(t, err)
		for _, found := range call.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
			if definition := definedIn[found[1]]; definition != "" {
				assert.Contains(t, whole, "local function "+found[1]+"(", "%s.lua calls a function of %s.lua", name, definition)
			}
		}
	}
}
