// Command leasewheel uses the locks of package lock from a shell. Its main use is to hold a lock
// on a Redis server while a command runs:
//
//	leasewheel run -k deploy -w 30s -- make deploy
//
// leasewheel help describes all commands.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
)

// Exit statuses. Those below 126 are the codes of sysexits.h, except exitFound.
const (
	exitFound         = 1  // check: the server is unsafe for locks; deadlocks: clients wait for each other
	exitUsage         = 64 // a flag or an argument is wrong
	exitUnavailable   = 69 // the server gave no usable answer
	exitFailed        = 70 // anything else
	exitNotAcquired   = 75 // the lock is taken, unless -E names another status
	exitLost          = 76 // the lock was lost, or is not held
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

func main() { end(status(os.Args[1:], standardStreams())) }

// end ends the process. A status below 0 is the number of a signal, negated: the process dies of it, because shells, make and
// xargs stop only if a program that was interrupted does. The first process of a container cannot, and exits with 128+n.
func end(status int) {
	if status < 0 {
		dieOf(-status)
		status = exitSignal - status
	}
	os.Exit(status)
}

// status runs the program with the given arguments and returns its status for end.
func status(args []string, std streams) int {
	logging.Disable() // errors of go-redis reach the user as errors of the command
	surviveBrokenPipes()
	return std.finish(dispatch(args, std))
}

// dispatch runs the command that the arguments name.
func dispatch(args []string, std streams) int {
	if len(args) == 0 {
		printUsage(std.err)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(rest, std)
	case "-version", "--version":
		return versionCommand.main(rest, std)
	case guardName:
		return guard(std)
	case heldName:
		return becomeCommand(rest, std)
	}
	for _, c := range commands {
		if c.name == name {
			return c.main(rest, std)
		}
	}
	if strings.HasPrefix(name, "-") {
		fmt.Fprintf(std.err, "leasewheel: %q is no command: flags follow the command, as in leasewheel run -ttl 10s; see leasewheel help\n", name)
		return exitUsage
	}
	fmt.Fprintf(std.err, "leasewheel: unknown command %q; see leasewheel help\n", name)
	return exitUsage
}

// command is one command of the program.
type command struct {
	name    string
	args    string // what follows the flags
	minArgs int    // how many arguments may follow the flags
	maxArgs int    // or anyArgs
	summary string // one line for the list of commands
	about   string // paragraphs for the help

	// setup defines the flags in f and returns the function that runs the command with the
	// remaining arguments. It returns the exit status.
	setup func(f *flag.FlagSet) func(args []string, std streams) int
}

const anyArgs = -1

// main parses the flags and runs the command.
func (c command) main(args []string, std streams) int {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	run := c.setup(f)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		c.printHelp(std.out, f)
		return 0
	case err != nil:
		return fail(std, usageError{fmt.Sprintf("%s: %v; see leasewheel help %s", c.name, err, c.name)})
	}
	if n := f.NArg(); n < c.minArgs || n > c.maxArgs && !c.takesCommand() {
		return fail(std, usageError{fmt.Sprintf("%s has %d arguments; usage: leasewheel %s", c.name, n, c.synopsis())})
	}
	return run(f.Args(), std)
}

// help prints the usage of the program or of one command.
func help(args []string, std streams) int {
	if len(args) == 0 {
		printUsage(std.out)
		return 0
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.main([]string{"-help"}, std)
		}
	}
	return fail(std, usageError{fmt.Sprintf("unknown command %q", args[0])})
}

// usageError is a wrong flag or argument.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// fail prints the error and returns the exit status for it.
func fail(std streams, err error) int {
	fmt.Fprintln(std.err, "leasewheel:", errorText(err))
	return statusOf(err)
}
