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
	prelude, err := os.ReadFile(filepath.Join(dir, "prelude.lua"))
	if err != nil {
		panic(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if name == "prelude" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		table.byLine[first] = name
		for _, source := range []string{string(text), string(prelude) + string(text)} {
			table.byDigest[digestOf(source)] = name
		}
	}
	return table
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
