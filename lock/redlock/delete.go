package redlock

import (
	"context"
	"strings"
	"sync"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// deleter is how a server deletes a key that has a certain value.
type deleter uint8

const (
	delex   deleter = iota // DELEX key IFEQ value, of Redis 8.4; tried first
	delifeq                // DELIFEQ key value, of Valkey 9.0
	script                 // every server
)

// deleters holds the deleter of each server. After a fail-over an older server may refuse the command.
// It then has executed nothing, and the next deleter is tried.
type deleters struct {
	mu     sync.Mutex // guards byNode
	byNode map[int]deleter
}

func (d *deleters) of(n *redisconn.Node) deleter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byNode[n.ID()]
}

// refused records that a server does not know the command of a deleter.
func (d *deleters) refused(n *redisconn.Node, by deleter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byNode == nil {
		d.byNode = make(map[int]deleter)
	}
	d.byNode[n.ID()] = max(d.byNode[n.ID()], by+1)
}

// deleteIfEqual deletes the key if the owner holds it, by a command of newer servers. It reports
// done = false if the script must do it: the server has no such command, or the key has moved.
func (s *Store) deleteIfEqual(ctx context.Context, key, owner string) (done, held bool, err error) {
	if err := s.usable(ctx); err != nil {
		return true, false, err
	}
	n := s.redis.Serving(redisconn.SlotOf(key))
	if n == nil {
		return false, false, nil
	}
	for {
		by := s.deleters.of(n)
		var c *redisconn.Command
		switch by {
		case delex:
			c = redisconn.NewCommand("DELEX", key, "IFEQ", owner)
		case delifeq:
			c = redisconn.NewCommand("DELIFEQ", key, owner)
		default:
			return false, false, nil
		}
		if err := s.redis.Do(ctx, n, c); err != nil {
			return true, false, rediskit.FromConn(err)
		}
		switch {
		case c.Err == nil:
			held, err := parseDeleted(c.Reply)
			return true, held, err
		case isUnknownCommand(c):
			s.deleters.refused(n, by)
		case c.Refused:
			return false, false, nil // the script finds out why: the key has moved, or is of another type
		default:
			return true, false, rediskit.FromConn(c.Err)
		}
	}
}

func parseDeleted(reply any) (held bool, err error) {
	n, ok := reply.(int64)
	if !ok || n != 0 && n != 1 {
		return false, rediskit.UnexpectedReply(reply)
	}
	return n == 1, nil
}

// isUnknownCommand reports whether the server does not know the command, or its user may not use it.
func isUnknownCommand(c *redisconn.Command) bool {
	if !c.Refused {
		return false
	}
	text := c.Err.Error()
	return strings.Contains(text, "unknown command") || strings.Contains(text, "NOPERM")
}
