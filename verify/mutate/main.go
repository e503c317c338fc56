package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// options are the flags of the command.
type options struct {
	out      io.Writer
	root     string
	n        int
	seed     uint64
	only     *regexp.Regexp
	skip     *regexp.Regexp
	with     []string
	list     bool
	minScore float64
}

func main() {
	o := options{out: os.Stdout}
	only := flag.String("only", "", "run the mutants whose description matches this `expression`")
	skip := flag.String("skip", "^$", "leave out the tests whose names match this `expression`")
	with := flag.String("with", "", "also run the tests of these `packages`, separated by commas")
	lua := flag.Bool("lua", false, "run the mutants of the Lua scripts of package redisstore")
	update := flag.Bool("update", false, "write the names of today into equivalent.txt, and run nothing")
	flag.StringVar(&o.root, "root", "..", "the `folder` of the module")
	flag.IntVar(&o.n, "n", 0, "run a random sample of this `size` for each package; 0 runs all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "the `seed` of the sample")
	flag.BoolVar(&o.list, "list", false, "print the mutants, and run nothing")
	flag.Float64Var(&o.minScore, "floor", 90, "fail if the mutation score of a package is lower, in `percent`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: mutate [flags] package ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.with = strings.FieldsFunc(*with, func(r rune) bool { return r == ',' })
	run := func() error { return o.run(*only, *skip, *lua, flag.Args()) }
	if *update {
		run = o.update
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run runs the mutants of the scripts or of packages.
func (o *options) run(only, skip string, lua bool, packages []string) (err error) {
	if o.only, err = regexp.Compile(only); err != nil {
		return err
	}
	if o.skip, err = regexp.Compile(skip); err != nil {
		return err
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	entries, err := parseEquivalents(equivalentText)
	if err != nil {
		return err
	}
	if o.n > 0 {
		fmt.Fprintf(o.out, "seed %d\n", o.seed)
	}
	if lua {
		return o.runScripts(entries)
	}
	var low []string
	for _, path := range packages {
		score, err := o.runPackage(path, entries)
		if err != nil {
			return err
		}
		if score < o.minScore {
			low = append(low, path)
		}
	}
	if len(low) > 0 {
		return fmt.Errorf("mutation score below %v %% in %s", o.minScore, strings.Join(low, ", "))
	}
	return nil
}

// runPackage runs the mutants of a package and returns the mutation score. With -list
// it only prints the mutants; the score is 100 then.
func (o *options) runPackage(path string, entries []*entry) (score float64, err error) {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	t, err := load(o.root, path, work)
	if err != nil {
		return 0, err
	}
	pkg := strings.TrimPrefix(filepath.ToSlash(path), "./")
	o.excludeEquivalents(entries, pkg, t.mutants)
	if err := t.build(); err != nil {
		return 0, err
	}
	chosen := sample(t.mutants, o.only, o.n, o.seed)
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(o.out, m)
		}
		return 100, nil
	}
	suites, err := o.suites(t, pkg)
	if err != nil {
		return 0, err
	}
	for i, m := range chosen {
		for _, s := range suites {
			s.run(m)
		}
		if m.status == notRun {
			m.status = notCovered
		}
		m.print(o.out)
		if done := i + 1; done%100 == 0 {
			fmt.Fprintf(o.out, "%s: %d of %d mutants done\n", pkg, done, len(chosen))
		}
	}
	return summarize(o.out, pkg, t.mutants).score(), nil
}

// excludeEquivalents sets the status of equivalent mutants, and prints stale entries.
func (o *options) excludeEquivalents(entries []*entry, pkg string, mutants []*mutant) {
	found, stale := matchEquivalents(entries, pkg, mutants)
	for m := range found {
		m.status = equivalent
	}
	for _, e := range stale {
		fmt.Fprintf(o.out, "equivalent.txt: no such mutant: %s\n", e)
	}
}

// suites builds the tests of a package, and of the packages of the flag -with.
func (o *options) suites(t *target, pkg string) ([]*suite, error) {
	dirs := []string{t.Dir}
	for _, path := range o.with {
		user, err := goList(o.root, path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, user.Dir)
	}
	var suites []*suite
	for _, dir := range dirs {
		s, failing, err := t.suite(dir, o.skip)
		if err != nil {
			return nil, err
		}
		if len(failing) > 0 {
			fmt.Fprintf(o.out, "%s: skipping tests that fail without a mutant: %s\n", pkg, strings.Join(failing, ", "))
		}
		suites = append(suites, s)
	}
	return suites, nil
}

// listPath is the place of the list of equivalent mutants in the module.
const listPath = "verify/mutate/equivalent.txt"

// update writes the names of today into the list, and prints the stale entries.
func (o *options) update() error {
	entries, err := parseEquivalents(equivalentText)
	if err != nil {
		return err
	}
	found, stale, err := matchAll(o.root, entries)
	if err != nil {
		return err
	}
	for _, e := range stale {
		fmt.Fprintf(o.out, "equivalent.txt: no such mutant: %s\n", e)
	}
	return os.WriteFile(filepath.Join(o.root, listPath), []byte(formatEquivalents(entries, found)), 0o600)
}

// matchAll matches the list with the mutants of all its packages.
func matchAll(root string, entries []*entry) (found map[*mutant]*entry, stale []*entry, err error) {
	found = make(map[*mutant]*entry)
	done := make(map[string]bool)
	for _, e := range entries {
		if done[e.pkg] {
			continue
		}
		done[e.pkg] = true
		mutants, err := mutantsOf(root, e.pkg)
		if err != nil {
			return nil, nil, err
		}
		here, gone := matchEquivalents(entries, e.pkg, mutants)
		maps.Copy(found, here)
		stale = append(stale, gone...)
	}
	return found, stale, nil
}

// mutantsOf returns the mutants of a package, or of the scripts.
func mutantsOf(root, pkg string) (mutants []*mutant, err error) {
	if pkg != luaPackage {
		t, err := load(root, "./"+pkg, "")
		if err != nil {
			return nil, err
		}
		return t.mutants, nil
	}
	scripts, err := readScripts(root)
	for _, s := range scripts {
		mutants = append(mutants, s.mutants...)
	}
	return mutants, err
}
