package whole

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// firstLines are those of the files of which scripts are made, which say what those
// do; a mistake that is put into one does not change that.
var firstLines = sync.OnceValue(func() map[string]string {
	lines := make(map[string]string)
	files, err := filepath.Glob("../../lock/redisstore/lua/*.lua")
	if err != nil || len(files) == 0 {
		panic("whole: the scripts are not where they were")
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

// scriptNames keeps by their sources the names that were looked for, which takes a tenth
// of a schedule otherwise.
var scriptNames sync.Map

// scriptIn returns the name of a script that was sent in full: that of the last of the
// files in it.
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
	sum := sha1.Sum([]byte(source)) // as Redis names scripts
	return hex.EncodeToString(sum[:])
}
