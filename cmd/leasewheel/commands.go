// The list of commands and their help.

package main

import (
	_ "embed" // for manualPage
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
)

// commands are all commands, in the order in which they are listed. It is set by init because
// some commands print the list.
var commands []command

func init() {
	commands = []command{
		runCommand, electCommand, acquireCommand, releaseCommand,
		lsCommand, inspectCommand, watchCommand, deadlocksCommand, forceReleaseCommand,
		checkCommand, manCommand, versionCommand,
	}
}

// printUsage prints the list of commands.
func printUsage(w io.Writer) {
	fmt.Fprint(w, "leasewheel holds locks on a Redis server.\n\nUsage: leasewheel COMMAND [flags] [arguments]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-14s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nThe server is that of the flag -url or of the variable LEASEWHEEL_URL. See leasewheel help COMMAND.\n")
}

// printHelp prints the description and the flags of the command.
func (c command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "Usage: leasewheel %s\n\n%s\n\nFlags:\n", c.synopsis(), strings.TrimSpace(c.about))
	for _, o := range c.options() {
		fmt.Fprintf(w, "  %s\n        %s\n", o.label(), o.usage)
	}
	if c.takesCommand() {
		fmt.Fprint(w, platformNotes)
	}
}

// synopsis returns the command line without the name of the program.
func (c command) synopsis() string {
	return strings.TrimSpace(c.name + " [flags] " + c.args)
}

// takesCommand reports whether the arguments are a command line of their own.
func (c command) takesCommand() bool { return c.maxArgs == anyArgs }

// option is a flag with its short form.
type option struct {
	short, long string // at least one is set, without the hyphens
	value       string // the name of its value, "" for a switch
	usage       string // with the default
}

// label returns the flag as the help shows it.
func (o option) label() string {
	label := "-" + o.long
	if o.short != "" {
		label = "-" + o.short + ", " + label
	}
	if o.value != "" {
		label += " " + o.value
	}
	return label
}

// options returns the flags of the command, sorted by name.
func (c command) options() []option {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	c.setup(f)
	byName := map[string]*option{}
	shorts := map[string]string{}
	f.VisitAll(func(f *flag.Flag) {
		if long, ok := strings.CutPrefix(f.Usage, sameAs); ok {
			shorts[long] = f.Name
			return
		}
		value, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "false" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		byName[f.Name] = &option{long: f.Name, value: strings.ToUpper(value), usage: strings.ReplaceAll(usage, "\n", " ")}
	})
	var all []option
	for name, o := range byName {
		o.short = shorts[name]
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b option) int { return strings.Compare(a.long, b.long) })
	return all
}

const sameAs = "same as -"

// alias defines a short form of a flag that is defined already.
func alias(f *flag.FlagSet, short, long string) {
	f.Var(f.Lookup(long).Value, short, sameAs+long)
}

// manualPage is made from the flags by a test.
//
//go:embed leasewheel.1
var manualPage string

var manCommand = command{
	name:    "man",
	summary: "print the manual page",
	about:   "Prints the manual page in the format of man(7): leasewheel man | man -l -",
	setup: func(*flag.FlagSet) func([]string, streams) int {
		return func(_ []string, std streams) int {
			fmt.Fprint(std.out, manualPage)
			return 0
		}
	},
}

var versionCommand = command{
	name:    "version",
	summary: "print the version",
	about:   "Prints the version of the module that the program was built from, and of Go.",
	setup: func(*flag.FlagSet) func([]string, streams) int {
		return func(_ []string, std streams) int {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fail(std, usageError{"version: the program has no build information"})
			}
			fmt.Fprintln(std.out, "leasewheel", info.Main.Version, info.GoVersion)
			return 0
		}
	},
}
