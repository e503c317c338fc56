// The commands that delete a key with a certain value.

package redlock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// deleter is how a server deletes a key that has a certain value.
type deleter uint8

const (
	delex   deleter = iota // DELEX key IFEQ value, of Redis 8.4; tried first
	delifeq                // DELIFEQ key value, of Valkey 9.0; tried second
	script                 // every server
)

// probeAgain is how long a server that has refused a command is spared it: it may be upgraded, or
// its user may get the right, while the store is open.
const probeAgain = 10 * time.Minute

// deleters holds the deleter of each server. After a fail-over another server may refuse the command.
// It then has executed nothing, and the next deleter is tried.
type deleters struct {
	mu     sync.Mutex // guards byNode
	byNode map[int]knownDeleter
}

// knownDeleter is the deleter that a server has accepted.
type knownDeleter struct {
	by    deleter
	since time.Time // when the others before it were refused
}

// of returns the deleter to try first. Once in probeAgain that is the very first one.
func (d *deleters) of(n *redisconn.Node) deleter {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.byNode[n.ID()]
	if ok && time.Since(k.since) >= probeAgain {
		d.byNode[n.ID()] = knownDeleter{k.by, time.Now()} // others keep theirs until this call has an answer
		return delex
	}
	return k.by
}

// accepted records the deleter of a server.
func (d *deleters) accepted(n *redisconn.Node, by deleter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byNode[n.ID()].by == by {
		return
	}
	if d.byNode == nil {
		d.byNode = make(map[int]knownDeleter)
	}
	d.byNode[n.ID()] = knownDeleter{by, time.Now()}
}

// command returns the command of a deleter that is no script.
func (by deleter) command(key, owner string) *redisconn.Command {
	if by == delex {
		return redisconn.NewCommand("DELEX", key, "IFEQ", owner)
	}
	return redisconn.NewCommand("DELIFEQ", key, owner)
}

// deleteIfEqual deletes the key if the owner holds it, by a command of newer servers. It reports
// done = false if the script must do it: the server has no such command, or the key has moved.
func (s *Store) deleteIfEqual(ctx context.Context, key, owner string) (done bool, err error) {
	n := s.redis.Serving(redisconn.SlotOf(key))
	if n == nil {
		return false, nil
	}
	for by := s.deleters.of(n); by < script; by++ {
		c := by.command(key, owner)
		if err := s.redis.Do(ctx, n, c); err != nil {
			return true, err
		}
		switch {
		case c.Err == nil:
			s.deleters.accepted(n, by)
			return true, rediskit.ParseDone(c.Reply)
		case isUnsupported(c): // the next deleter may be known
		case c.Refused:
			return false, nil // the script finds out why: the key has moved, or is of another type
		default:
			return true, c.Err
		}
	}
	s.deleters.accepted(n, script)
	return false, nil
}

// isUnsupported reports whether the server does not know the command, or not in this form, or its user
// may not use it. It has executed nothing then.
func isUnsupported(c *redisconn.Command) bool {
	if !c.Refused {
		return false
	}
	text := c.Err.Error()
	return slices.ContainsFunc([]string{"unknown command", "wrong number of arguments", "syntax error", "NOPERM"},
		func(reason string) bool { return strings.Contains(text, reason) })
}
