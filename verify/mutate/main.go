package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

type options struct {
	out   io.Writer
	root  string
	n     int
	seed  uint64
	only  *regexp.Regexp
	skip  *regexp.Regexp
	with  []string
	list  bool
	floor float64
}

func main() {
	o := options{out: os.Stdout}
	only := flag.String("only", "", "try the mutants whose description matches this expression")
	skip := flag.String("skip", "^$", "leave out the tests whose names match this expression")
	with := flag.String("with", "", "use the tests of these packages too, separated by commas")
	lua := flag.Bool("lua", false, "try the mutants of the scripts of package redisstore")
	flag.StringVar(&o.root, "root", "..", "the folder of the module")
	flag.IntVar(&o.n, "n", 0, "try so many of each package, drawn by the seed; 0: all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what draws them")
	flag.BoolVar(&o.list, "list", false, "print the mutants and try none")
	flag.Float64Var(&o.floor, "floor", 90, "fail if less than this share of a package is killed, in percent")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: mutate [flags] package ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.with = strings.FieldsFunc(*with, func(r rune) bool { return r == ',' })
	if err := o.run(*only, *skip, *lua, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

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
	known, err := parseEquivalents(equivalentText)
	if err != nil {
		return err
	}
	if o.n > 0 {
		fmt.Fprintf(o.out, "seed %d\n", o.seed)
	}
	if lua {
		return o.scripts(known)
	}
	var below []string
	for _, path := range packages {
		enough, err := o.one(path, known)
		if err != nil {
			return err
		}
		if !enough {
			below = append(below, path)
		}
	}
	if len(below) > 0 {
		return fmt.Errorf("less than %v %% killed in %s", o.floor, strings.Join(below, ", "))
	}
	return nil
}

// one tries the mutants of a package and tells whether enough were killed.
func (o *options) one(path string, known equivalents) (enough bool, err error) {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	t, err := load(o.root, path, work)
	if err != nil {
		return false, err
	}
	name := strings.TrimPrefix(filepath.ToSlash(path), "./")
	for _, m := range t.mutants {
		if known.has(name, m) {
			m.outcome = equivalent
		}
	}
	if err := t.build(); err != nil {
		return false, err
	}
	chosen := t.choose(o.only, o.n, o.seed)
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(o.out, m)
		}
		return true, nil
	}
	suites, err := o.suitesOf(t, name)
	if err != nil {
		return false, err
	}
	for i, m := range chosen {
		for _, s := range suites {
			s.try(m)
		}
		if m.outcome == untried {
			m.outcome = uncovered
		}
		m.print(o.out)
		if done := i + 1; done%100 == 0 {
			fmt.Fprintf(o.out, "%s: %d of %d tried\n", name, done, len(chosen))
		}
	}
	var tried []*mutant
	for _, m := range t.mutants {
		if m.outcome != untried && m.outcome != doesNotCompile {
			tried = append(tried, m)
		}
	}
	for _, gone := range known.unmet(name) {
		fmt.Fprintf(o.out, "%s: equivalent.txt has a mutant that is none any more: %s\n", name, gone)
	}
	c := report(o.out, name, tried)
	return c.ratio() >= o.floor, nil
}

// suitesOf builds the tests of a package, and of those that are used with it.
func (o *options) suitesOf(t *target, name string) ([]*suite, error) {
	dirs := []string{t.Dir}
	for _, path := range o.with {
		other, err := list(o.root, path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, other.Dir)
	}
	var suites []*suite
	for _, dir := range dirs {
		s, failing, err := t.suite(dir, o.skip)
		if err != nil {
			return nil, err
		}
		if len(failing) > 0 {
			fmt.Fprintf(o.out, "%s: left out, as they fail without a mutant: %s\n", name, strings.Join(failing, ", "))
		}
		suites = append(suites, s)
	}
	return suites, nil
}
