// Errors as text and as exit status.

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// signalError is the end of a wait by a signal.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "ended by a signal: " + e.signal.String() }

// noAnswerError is the cause of a context in whose time the server has not answered.
type noAnswerError time.Duration

func (e noAnswerError) Error() string {
	return fmt.Sprintf("no answer of the server within %v", time.Duration(e))
}
func (e noAnswerError) Unwrap() error { return lock.ErrUnavailable }

// errorText returns the error in one line, without the names of packages before it, and with advice for the command line.
func errorText(err error) string {
	return oneLine(forShell.Replace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "lock: "), "redisstore: ")))
}

// forShell replaces the advice of package redisstore that names options of Go.
var forShell = strings.NewReplacer(
	"set Password in the options of the client, or in the URL", "set "+urlEnv+"=redis://:PASSWORD@HOST:6379, behind Sentinel with &password=PASSWORD",
	"check Username and Password in the options of the client, or in the URL", "check both in "+urlEnv+"=redis://USER:PASSWORD@HOST:6379, behind Sentinel in &username=USER&password=PASSWORD",
	"Set Username and Password in the redis.Options, or in the URL.", "Set "+urlEnv+"=redis://USER:PASSWORD@HOST:6379, behind Sentinel with &username=USER&password=PASSWORD.",
	"set SentinelUsername and SentinelPassword in the redis.FailoverOptions", "set "+urlEnv+"=redis://USER:PASSWORD@SENTINEL:26379?master_name=NAME",
	"check MasterName in the redis.FailoverOptions, or master_name in the URL", "check master_name in the URL",
	"use redis.NewFailoverClient, with its address in SentinelAddrs", "set "+sentinelURL,
	"Give the store a client made by redis.NewFailoverClient, with this address in SentinelAddrs.", "Set "+sentinelURL+".",
	"use the address of its master, or redis.NewFailoverClient", "use the address of its master, or set "+sentinelURL,
	"Give the store the address of the master, or a client made by redis.NewFailoverClient.", "Use the address of the master, or set "+sentinelURL+".",
	"use redis.NewClusterClient", "set "+clusterURL,
	"Give the store a client made by redis.NewClusterClient.", "Set "+clusterURL+".",
	"use redis.NewClient", "remove addr from the URL",
	"one that speaks TLS only needs TLSConfig, or a URL that begins with rediss://", "one that speaks TLS only needs a URL that begins with rediss://",
)

// URLs that errors advise.
const (
	sentinelURL = urlEnv + "=redis://SENTINEL:26379?master_name=NAME"
	clusterURL  = urlEnv + "=redis://NODE1:6379?addr=NODE2:6379"
)

// oneLine joins the lines of a text. The errors of Close have several.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// statusOf returns the status for an error, as end takes it.
func statusOf(err error) int {
	var usage usageError
	var signal signalError
	var start startError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &signal):
		return -signalNumber(signal.signal)
	case errors.As(err, &start):
		return start.code()
	case errors.As(err, &usage), errors.Is(err, lock.ErrBadKey), errors.Is(err, lock.ErrBadTTL), errors.Is(err, lock.ErrBadExport):
		return exitUsage
	case errors.Is(err, lock.ErrNotAcquired):
		return exitNotAcquired
	case errors.Is(err, lock.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, lock.ErrLost), errors.Is(err, lock.ErrNotHeld):
		return exitLost
	}
	return exitFailed
}

// signalNumber returns the number of a signal, 0 if it has none.
func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
