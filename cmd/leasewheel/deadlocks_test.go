//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// waitFor waits for a lock in the background until the end of the test. It returns when the lock has a waiter.
func waitFor(t *testing.T, c *lock.Client, terms lock.Terms, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() { _, _ = c.With(terms).Mutex(key).Lock(ctx) })
	t.Cleanup(func() { cancel(); waiter.Wait() })
	awaitWaiting(t, c, key, 1)
}

func TestDeadlocksShowsWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t).URL()
	first, second := client(t, server), client(t, server)
	firstTerms, secondTerms := lock.Terms{Metadata: "first"}, lock.Terms{Metadata: "second\x1b[31m"}
	a, b := hold(t, first.With(firstTerms).Mutex("m:a")), hold(t, second.With(secondTerms).Mutex("m:b"))
	waitFor(t, first, firstTerms, "m:b")
	assert.Equal(t, "no clients wait for each other\n", stdoutOf(t, server, "deadlocks"))

	waitFor(t, second, secondTerms, "m:a")
	out, errs, code := result(t, server, "deadlocks", "m:")
	assert.Equal(t, exitFound, code)
	assert.Empty(t, errs)
	assert.Contains(t, out, "2 clients wait for each other:\n")
	assert.Regexp(t, fmt.Sprintf(`(?m)^  client \w{16} "first"\n    waits for m:b \(exclusive\), has waited [\d.]+m?s\n    held by client \w{16} "second\\x1b\[31m" \(exclusive\), token %d$`, b.Token()), out)
	assert.Regexp(t, fmt.Sprintf(`(?m)^  client \w{16} "second\\x1b\[31m"\n    waits for m:a \(exclusive\), has waited [\d.]+m?s\n    held by client \w{16} "first" \(exclusive\), token %d$`, a.Token()), out)
	assert.Equal(t, "no clients wait for each other\n", stdoutOf(t, server, "deadlocks", "other"))
}

func TestAClientThatWaitsForItselfIsShownOnly(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t).URL()
	c := client(t, server)
	hold(t, c.Mutex("a"))
	waitFor(t, c, lock.Terms{}, "a")
	assert.Regexp(t, `^a client waits for itself:\n  client \w{16}\n    waits for a \(exclusive\), has waited [\d.]+m?s\n    held by client \w{16} \(exclusive\), token \d+\n$`,
		stdoutOf(t, server, "deadlocks"))
}
