//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const manPage = "leasewheel.1"

var update = flag.Bool("update", false, "write "+manPage)

// TestTheManualPageIsUpToDate compares the page with the flags. go test -run ManualPage -update writes it.
func TestTheManualPageIsUpToDate(t *testing.T) {
	t.Parallel()
	if *update {
		require.NoError(t, os.WriteFile(manPage, []byte(manual()), 0o644))
	}
	page, err := os.ReadFile(manPage)
	require.NoError(t, err)
	if manual() != string(page) { // assert.Equal would print both
		assert.Fail(t, manPage+" is out of date; go test -run ManualPage -update writes it")
	}
	for _, c := range commands {
		assert.NotEmpty(t, c.summary, c.name)
		for _, o := range c.options() {
			assert.NotEmpty(t, o.usage, "%s -%s", c.name, o.long)
			assert.Contains(t, string(page), roff(o.label()))
		}
	}
}

func TestTheUsageListsAllCommands(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	usage := stdoutOf(t, server, "help")
	for _, c := range commands {
		assert.Contains(t, usage, "  "+c.name+" ")
		assert.Contains(t, stdoutOf(t, server, "help", c.name), "Usage: leasewheel "+c.name)
	}
	_, errs, code := result(t, server)
	assert.Equal(t, exitUsage, code)
	assert.Equal(t, usage, errs)
	assert.Equal(t, usage, stdoutOf(t, server, "--help"))
	assert.Contains(t, stdoutOf(t, server, "version"), "leasewheel ")
	assert.Equal(t, stdoutOf(t, server, "version"), stdoutOf(t, server, "--version"))
	assert.Len(t, stdoutOf(t, server, "man"), len(manualPage))
}

// statuses and variables are the tables of the manual page.
var (
	statuses = [][2]string{
		{"1", "check: the server is unsafe for locks; deadlocks: clients wait for each other"},
		{"64", "a flag or an argument is wrong"},
		{"69", "the server cannot be reached, or gave no usable answer"},
		{"70", "any other error, such as a key that holds a lock of another kind"},
		{"75", "the lock is taken; -E chooses another status"},
		{"76", "run, elect: the lock was lost, and the command was stopped for that reason; release, force-release: the lock is not held"},
		{"126", "the command is not executable"},
		{"127", "the command was not found"},
		{"128+n", "a shell shows this if leasewheel has died of signal n, which has ended the command or the wait for the lock. The first process of a container, which cannot die of a signal, exits with it"},
	}
	variables = [][2]string{
		{urlEnv, "the URL of the server, if there is no -url: host:port, redis://user:password@host:port/db, rediss:// for TLS, " +
			"unix:///path, redis://node1:6379?addr=node2:6379 for a cluster, redis://sentinel1:26379?master_name=NAME&addr=sentinel2:26379 for Sentinel, " +
			"with &username=USER&password=PASSWORD for the server. " +
			"The address of one node of a cluster is enough. The command of run and elect inherits the variable"},
		{prefixEnv, "the prefix of all keys, if there is no -prefix"},
		{handleEnv, "the handle for release"},
		{keyEnv + ", " + tokenEnv, "set for the command: the key and the fencing token"},
	}
)

// manual returns the manual page.
func manual() string {
	var b strings.Builder
	b.WriteString(".\\\" Written by go test -run ManualPage -update.\n.TH LEASEWHEEL 1\n.SH NAME\nleasewheel \\- hold locks on a Redis server\n.SH SYNOPSIS\n")
	for _, c := range commands {
		fmt.Fprintf(&b, ".B leasewheel %s\n[flags] %s\n.br\n", roff(c.name), roff(c.args))
	}
	b.WriteString(".SH DESCRIPTION\nEach command has the flag \\-help. Flags come before arguments. Durations are numbers with a unit, such as 500ms, 30s or 10m; a number alone is seconds.\n")
	for _, c := range commands {
		fmt.Fprintf(&b, ".SH %s\n%s.PP\n", roff(strings.ToUpper(c.name)), roffParagraphs(upperFirst(c.summary)+".\n\n"+strings.TrimSpace(c.about)))
		for _, o := range c.options() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(o.label()), roff(o.usage))
		}
	}
	for _, table := range []struct {
		title string
		rows  [][2]string
	}{{"EXIT STATUS", statuses}, {"ENVIRONMENT", variables}} {
		fmt.Fprintf(&b, ".SH %s\n", table.title)
		if table.title == "EXIT STATUS" {
			b.WriteString("The status of run and elect is that of the command, unless one of these applies:\n")
		}
		for _, row := range table.rows {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(row[0]), roff(row[1]))
		}
	}
	b.WriteString(".SH LIMITS\n" +
		"A lease is no proof: a command can be delayed on its way to a resource for longer than its lease lasts. If such a late write must do no\n" +
		"harm, let the resource check the fencing token.\n.PP\n" +
		"If leasewheel is killed, the guard stops the process group of the command only.\n.PP\n" +
		"If leasewheel and its guard are both stopped by SIGSTOP, nobody stops the command until one of them goes on. If both are killed, the command gets the\n" +
		"signal on Linux only, and nobody kills it.\n.PP\n" +
		"If the command catches Ctrl-C and exits, what is around leasewheel does not learn of the key.\n.PP\n" +
		"On systems that are not Unix the command is killed at once when the lock is lost, its own child processes run on, and signals are not forwarded.\n" +
		".SH SEE ALSO\nflock(1), https://github.com/leasewheel/leasewheel\n")
	return b.String()
}

// roffParagraphs returns the paragraphs of a text. Indented lines are kept as they are.
func roffParagraphs(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, "    ") {
			b.WriteString(".EX\n" + roff(paragraph) + "\n.EE\n")
			continue
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	return b.String()
}

// roff escapes a text. No line may begin with a control character.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
