package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// scriptFolder is where the scripts lie, in the module.
const scriptFolder = "lock/redisstore/lua"

// scripts tries the mutants of the scripts. Those who test them are programs that
// read the scripts from a folder: the comparison with the model, which is quick and
// sees all, and the tests of the store.
func (o *options) scripts(known equivalents) error {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	scripts, err := o.readScripts(filepath.Join(work, scriptFolder))
	if err != nil {
		return err
	}
	var mutants []*mutant
	of := make(map[*mutant]*script)
	for _, s := range scripts {
		for _, m := range s.mutants {
			if of[m] = s; known.has("lua", m) {
				m.outcome = equivalent
			}
			mutants = append(mutants, m)
		}
	}
	chosen := (&target{mutants: mutants}).choose(o.only, o.n, o.seed)
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(o.out, m)
		}
		return nil
	}
	suites, err := o.suites(work)
	if err != nil {
		return err
	}
	for _, m := range chosen {
		place := filepath.Join(work, scriptFolder, m.file)
		if err := os.WriteFile(place, []byte(of[m].mutated(m)), 0o600); err != nil {
			return err
		}
		for _, s := range suites {
			s.try(m)
		}
		m.print(o.out)
		if err := os.WriteFile(place, []byte(of[m].text), 0o600); err != nil {
			return err
		}
	}
	var tried []*mutant
	for _, m := range mutants {
		if m.outcome != untried {
			tried = append(tried, m)
		}
	}
	for _, gone := range known.unmet("lua") {
		fmt.Fprintf(o.out, "lua: equivalent.txt has a mutant that is none any more: %s\n", gone)
	}
	if c := report(o.out, "lua", tried); c.ratio() < 100 {
		return fmt.Errorf("%d mutants of the scripts survived", c[survived])
	}
	return nil
}

// readScripts reads the scripts, and copies them into a folder.
func (o *options) readScripts(to string) ([]*script, error) {
	files, err := filepath.Glob(filepath.Join(o.root, scriptFolder, "*.lua"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	var scripts []*script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(file)
		scripts = append(scripts, findLua(name, string(text)))
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return scripts, nil
}

// suites builds what tests the scripts, the quickest first.
func (o *options) suites(work string) ([]*suite, error) {
	model := &target{Dir: filepath.Join(o.root, "verify", "model")}
	modelDir := filepath.Join(work, "verify", "model")
	if err := os.MkdirAll(modelDir, 0o700); err != nil {
		return nil, err
	}
	program := filepath.Join(work, "model.test")
	if out, err := compile(model.Dir, "-o", program); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	bridge := &suite{program: program, dir: modelDir, bound: time.Minute}

	store := &target{Dir: filepath.Join(o.root, "lock", "redisstore")}
	overlay, err := store.readingScripts(filepath.Join(work, scriptFolder), work)
	if err != nil {
		return nil, err
	}
	program = filepath.Join(work, "redisstore.test")
	if out, err := compile(store.Dir, "-overlay", overlay, "-o", program); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	tests := &suite{program: program, dir: store.Dir, bound: 3 * time.Second} // what takes longer is about other things
	for _, s := range []*suite{bridge, tests} {
		only := regexp.MustCompile("^TestTheScriptsAreTheModel$")
		if s == tests {
			only = regexp.MustCompile(".")
		}
		failing, err := s.time(only, o.skip)
		if err != nil {
			return nil, err
		}
		if len(failing) > 0 {
			fmt.Fprintf(o.out, "lua: left out, as they fail or take long without a mutant: %s\n", strings.Join(failing, ", "))
		}
	}
	return []*suite{bridge, tests}, nil
}

var embedded = regexp.MustCompile(`//go:embed lua/(\w+\.lua)\n(\s*(?:var )?\w+) string`)

// readingScripts returns an overlay in which the package reads its scripts from a
// folder when it starts, so that it need not be compiled for each mutant.
func (t *target) readingScripts(folder, work string) (string, error) {
	files, err := filepath.Glob(filepath.Join(t.Dir, "*.go"))
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	write := func(name, text string) error {
		place := filepath.Join(work, "reading_"+name)
		replace[filepath.Join(t.Dir, name)] = place
		return os.WriteFile(place, []byte(text), 0o600)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !embedded.Match(text) {
			continue
		}
		reads := embedded.ReplaceAllString(string(text), `$2 = read_("$1")`)
		if err := write(filepath.Base(file), reads); err != nil {
			return "", err
		}
	}
	err = write("zz_reading.go", fmt.Sprintf(`package redisstore

import (
	"os"
	"path/filepath"
)

func read_(name string) string {
	text, err := os.ReadFile(filepath.Join(%q, name))
	if err != nil {
		panic(err)
	}
	return string(text)
}
`, folder))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
