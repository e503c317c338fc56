package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// scriptFolder is the place of the scripts in the module.
const scriptFolder = "lock/redisstore/lua"

// luaPackage stands for the scripts in the list of equivalent mutants.
const luaPackage = "lua"

// runScripts runs the mutants of the scripts. Two test programs read the scripts from a
// folder: the comparison with the model, which is quick and thorough, and the tests of
// package redisstore.
func (o *options) runScripts(entries []*entry) error {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	folder := filepath.Join(work, scriptFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	scripts, err := readScripts(o.root)
	if err != nil {
		return err
	}
	var mutants []*mutant
	scriptOf := make(map[*mutant]*script)
	for _, s := range scripts {
		if err := os.WriteFile(filepath.Join(folder, s.name), []byte(s.text), 0o600); err != nil {
			return err
		}
		for _, m := range s.mutants {
			scriptOf[m] = s
		}
		mutants = append(mutants, s.mutants...)
	}
	o.excludeEquivalents(entries, luaPackage, mutants)
	chosen := sample(mutants, o.only, o.n, o.seed)
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(o.out, m)
		}
		return nil
	}
	suites, err := o.scriptSuites(work, folder)
	if err != nil {
		return err
	}
	for _, m := range chosen {
		path := filepath.Join(folder, m.file)
		if err := os.WriteFile(path, []byte(scriptOf[m].mutated(m)), 0o600); err != nil {
			return err
		}
		for _, s := range suites {
			s.run(m)
		}
		m.print(o.out)
		if err := os.WriteFile(path, []byte(scriptOf[m].text), 0o600); err != nil {
			return err
		}
	}
	if c := summarize(o.out, luaPackage, mutants); c.score() < 100 {
		return fmt.Errorf("%d mutants of the scripts survived", c[survived])
	}
	return nil
}

// readScripts finds the mutants of all scripts.
func readScripts(root string) ([]*script, error) {
	files, err := filepath.Glob(filepath.Join(root, scriptFolder, "*.lua"))
	if err != nil {
		return nil, err
	}
	var scripts []*script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, findLua(filepath.Base(file), string(text)))
	}
	return scripts, nil
}

// scriptSuites builds the tests of the scripts, with the quicker suite first.
func (o *options) scriptSuites(work, folder string) ([]*suite, error) {
	// The comparison finds the scripts relative to its working directory.
	modelDir := filepath.Join(work, "verify", "model")
	if err := os.MkdirAll(modelDir, 0o700); err != nil {
		return nil, err
	}
	comparison := &suite{program: filepath.Join(work, "model.test"), dir: modelDir, timeout: time.Minute}
	if out, err := compileTests(filepath.Join(o.root, "verify", "model"), "-o", comparison.program); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}

	storeDir := filepath.Join(o.root, "lock", "redisstore")
	overlayPath, err := readingScripts(storeDir, folder, work)
	if err != nil {
		return nil, err
	}
	// Tests of the store that take longer than the timeout test other things.
	store := &suite{program: filepath.Join(work, "redisstore.test"), dir: storeDir, timeout: 3 * time.Second}
	if out, err := compileTests(storeDir, "-overlay", overlayPath, "-o", store.program); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	for _, s := range []*suite{comparison, store} {
		only := regexp.MustCompile(".")
		if s == comparison {
			only = regexp.MustCompile("^TestScriptsMatchTheModel$")
		}
		failing, err := s.measure(only, o.skip)
		if err != nil {
			return nil, err
		}
		if len(failing) > 0 {
			fmt.Fprintf(o.out, "lua: skipping tests that fail or time out without a mutant: %s\n", strings.Join(failing, ", "))
		}
	}
	return []*suite{comparison, store}, nil
}

// embedded matches the variable with the embedded files of the scripts.
var embedded = regexp.MustCompile(`//go:embed lua/\*\.lua\nvar (\w+) embed\.FS`)

// readingScripts writes an overlay of a package that reads its scripts from a folder at
// the start of the program instead of embedding them, so that the package is compiled
// once for all mutants. readingScripts returns the path of the overlay.
func readingScripts(dir, folder, work string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	o := overlay{dir: dir, work: work, prefix: "reading_", replace: make(map[string]string)}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !embedded.Match(text) {
			continue
		}
		reads := embedded.ReplaceAllString(string(text), "var $1 = luaFolder_()")
		reads = strings.Replace(reads, `"embed"`, `_ "embed"`, 1)
		if err := o.add(filepath.Base(file), reads); err != nil {
			return "", err
		}
	}
	err = o.add("zz_reading.go", fmt.Sprintf(`package redisstore

import (
	"io/fs"
	"os"
)

func luaFolder_() fs.FS { return os.DirFS(%q) }
`, filepath.Dir(folder)))
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, o.write(path)
}
