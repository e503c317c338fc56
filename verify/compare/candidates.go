// The clients that are compared.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// lease is the TTL of all locks.
const lease = 2 * time.Second

// candidate is a client under test. It is used as its documentation shows, with its defaults, except that
// its lease is 2 s and that a wait has no limit.
type candidate struct {
	name    string
	store   string   // the kind of its servers
	modules []string // of Go, whose versions are named
	renews  bool     // the library, or a watchdog that its documentation shows, renews a lock
	renewal string   // the bytes that distinguish a renewal from other requests while a lock is held
	note    string   // for the page

	open    opener                    // of a client in Go
	command func() (*exec.Cmd, error) // of another one; the addresses and the lease are added

	lockKey string                  // the format of the key on Redis that expires with the lease; "" means that there is none
	pattern func(key string) string // the bytes of an acquire and of a release; nil means the key
	without string                  // a fault that makes no sense
}

func (c *candidate) bytesOf(key string) string {
	if c.pattern != nil {
		return c.pattern(key)
	}
	return key
}

// peerEnv names the candidate in the environment of its process.
const peerEnv = "COMPARE_PEER"

// process returns the command of a process that uses the servers at the addresses.
func (c *candidate) process(addrs []string) (*exec.Cmd, error) {
	args := []string{strings.Join(addrs, ","), fmt.Sprint(lease.Milliseconds())}
	if c.command != nil {
		cmd, err := c.command()
		if err == nil {
			cmd.Args = append(cmd.Args, args...)
		}
		return cmd, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), peerEnv+"="+c.name)
	return cmd, nil
}

// runPeer is the main function of a process of a client in Go.
func (c *candidate) runPeer(args []string) error {
	p := &peer{text: c.versions(), open: c.open, addrs: strings.Split(args[0], ",")}
	return p.serve(os.Stdin, os.Stdout)
}

// versions returns the versions of the modules of a client in Go.
func (c *candidate) versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var all []string
	for _, m := range c.modules {
		for _, d := range info.Deps {
			if d.Path == m {
				all = append(all, shortName(m)+" "+strings.TrimPrefix(d.Version, "v"))
			}
		}
	}
	return strings.Join(all, ", ")
}

// shortName returns the last part of a module's path that is not a version.
func shortName(module string) string {
	if strings.Contains(module, "/etcd/") {
		return "etcd client"
	}
	module, _, _ = strings.Cut(module, "/v")
	return path.Base(module)
}

func find(name string) (*candidate, error) {
	for _, c := range candidates() {
		if c.name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("unknown client %q", name)
}

// candidates returns all clients, in the order of the page.
func candidates() []*candidate {
	return slices.Concat(leasewheelCandidates(), goredisCandidates(), rueidisCandidates(), javaCandidates(), etcdCandidates(), postgresCandidates())
}
