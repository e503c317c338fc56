//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"flag"
	"os"
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
	assert.Len(t, stdoutOf(t, server, "man"), len(manual()))
}
