package whole

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// names are those of the scripts. A script is known by its digest, or by the first
// line of its file, which says what it does: a mistake that is put into it does not
// change that.
type names struct{ byDigest, byLine map[string]string }

var scripts = sync.OnceValue(readScripts)

func readScripts() names {
	table := names{map[string]string{}, map[string]string{}}
	const dir = "../../lock/redisstore/lua"
	files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		panic(err)
	}
	prelude, shared := read(filepath.Join(dir, "prelude.lua")), read(filepath.Join(dir, "shared_prelude.lua"))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if strings.HasSuffix(name, "prelude") {
			continue
		}
		text := read(file)
		first, _, _ := strings.Cut(text, "\n")
		table.byLine[first] = name
		for _, before := range []string{"", prelude, prelude + shared} {
			table.byDigest[digestOf(before+text)] = name
		}
	}
	return table
}

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func digestOf(source string) string {
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	return hex.EncodeToString(sum[:])
}

// scriptIn returns the name of a script that was sent in full.
func scriptIn(source string) string {
	for line, name := range scripts().byLine {
		if strings.Contains(source, line) {
			return name
		}
	}
	return "unknown"
}
