// The names of scripts, by their sources.

package full

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// firstLines returns the first lines of the files from which scripts are assembled. Mutants do
// not change them.
var firstLines = sync.OnceValue(func() map[string]string {
	lines := make(map[string]string)
	files, err := filepath.Glob("../../../lock/redisstore/lua/*.lua")
	if err != nil || len(files) == 0 {
		panic("sim: the scripts are not where they were")
	}
	for _, file := range files {
		first, _, _ := strings.Cut(read(file), "\n")
		lines[first] = strings.TrimSuffix(filepath.Base(file), ".lua")
	}
	return lines
})

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// scriptNames caches the names of scripts by their sources. Without the cache, finding the names
// takes a tenth of the time of a schedule.
var scriptNames sync.Map

// scriptIn returns the name of a script that was sent in full: the name of its last file.
func scriptIn(source string) string {
	if name, known := scriptNames.Load(source); known {
		return name.(string)
	}
	name, at := unknown, -1
	for line, file := range firstLines() {
		if i := strings.LastIndex(source, line+"\n"); i > at {
			name, at = file, i
		}
	}
	scriptNames.Store(source, name)
	return name
}

func digestOf(source string) string {
	sum := sha1.Sum([]byte(source)) // Redis identifies scripts by their SHA-1
	return hex.EncodeToString(sum[:])
}
