// The list of commands and their help.

package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// commands are all commands, in the order in which they are listed. It is set by init because
// some commands print the list.
var commands []command

func init() {
	commands = []command{
		runCommand, electCommand, acquireCommand, releaseCommand,
		lsCommand, inspectCommand, deadlocksCommand, forceReleaseCommand,
		checkCommand, versionCommand,
	}
}

// printUsage prints the list of commands, and what they have in common.
func printUsage(w io.Writer) {
	fmt.Fprint(w, "leasewheel holds locks on a Redis server.\n\nUsage: leasewheel COMMAND [flags] [arguments]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-14s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, commonHelp)
}

const commonHelp = `
Durations are numbers with a unit, such as 500ms, 30s or 10m; a number alone is seconds.
See leasewheel help COMMAND.

Variables:
  LEASEWHEEL_URL     the URL of the server, if there is no -url:
                     host:port or redis://user:password@host:port/db, rediss:// for TLS, unix:///path;
                     a cluster, by one or more nodes: redis://node1:6379?addr=node2:6379
                     Sentinel: redis://sentinel1:26379?master_name=NAME&addr=sentinel2:26379,
                     with &username=USER&password=PASSWORD for the server
  LEASEWHEEL_PREFIX  the prefix of all keys, if there is no -prefix

Exit status, unless it is that of the command of run or elect:
  1         check: the server is unsafe for locks; deadlocks: clients wait for each other
  64        a flag or an argument is wrong
  69        the server cannot be reached, or gave no usable answer
  70        another error, such as a key that holds a lock of another kind
  75        the lock is taken; -E chooses another status
  76        the lock was lost, or is not held
  126, 127  the command is not executable; was not found
  128+n     signal n has ended the command or the wait for the lock: leasewheel dies of it, and shells show this
`

// printHelp prints the description and the flags of the command.
func (c command) printHelp(w io.Writer, f *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: leasewheel %s\n\n%s\n\nFlags:\n", c.synopsis(), strings.TrimSpace(c.about))
	f.SetOutput(w)
	f.PrintDefaults()
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

// alias defines a short form of a flag that is defined already.
func alias(f *flag.FlagSet, short, long string) {
	f.Var(f.Lookup(long).Value, short, "same as -"+long)
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
