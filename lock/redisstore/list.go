// List.

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// keysPerScan is about how many keys of the server one call of List looks at, locks or not.
// SCAN takes about 0.1 ms for them, and the server executes nothing else in that time.
const keysPerScan = 500

// List implements [driver.Store] with SCAN. The calls visit all keys of the database, on
// a cluster those of one master after another. Options.Timeout bounds each request: a call is
// one, and on a cluster the first call and the last one of each master are two.
//
// List returns an error if locks may be missing because
//
//   - a slot of the cluster, or all slots of a master, have got another master since the first
//     call. Each master is asked which slots it serves when all its keys have been visited;
//   - a server was restarted or replaced while its keys were visited, for example by a
//     fail-over of Sentinel, since a cursor of SCAN means nothing to another process. To notice
//     that, the user needs the right to INFO. Without it, such a change goes unnoticed.
//
// Two changes of a cluster always go unnoticed, and locks may be missing after them. While a slot
// is being moved, MIGRATE takes its keys to the new master one by one, before that master owns
// the slot: List misses a key that was taken from a master that it has not visited to one that it
// has. And a slot may be moved away and back. So do not rely on a List during a resharding.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	keys, next, err = s.list(ctx, prefix, cursor)
	return keys, next, failed("list", err)
}

func (s *Store) list(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	masters, owners, err := s.redis.Masters(ctx, cursor == "")
	if err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor, len(masters), owners)
	if err != nil {
		return nil, "", err
	}
	names, at, err := s.scan(ctx, masters[at.node], at, s.listPattern(prefix))
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		if key, ok := s.lockName(name); ok && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	if at.scan == scanEnd {
		switch now, err := s.redis.OwnersAt(ctx, masters[at.node]); {
		case err != nil:
			return nil, "", err
		case now != at.owners: // a slot that the node had lost before goes to a node that may have been visited already
			return nil, "", errMastersChanged
		}
		at = listCursor{node: at.node + 1, scan: scanEnd, owners: at.owners}
	}
	if at.node < len(masters) {
		next = at.String()
	}
	return keys, next, nil
}

// scan runs one SCAN on a node, at a cursor. It returns an error if the server is not the
// process that the cursor comes from.
func (s *Store) scan(ctx context.Context, n *redisconn.Node, at listCursor, pattern string) (names []string, next listCursor, err error) {
	ask := ""
	if at.scan == scanEnd || at.process != "" { // a server that has refused INFO is not asked again
		ask = "1"
	}
	page := redisconn.NewCommand("EVAL", listScript.Source(), 0, at.scan, pattern, keysPerScan, ask)
	if err := s.redis.Do(ctx, n, page); err != nil {
		return nil, at, err
	}
	if page.Err != nil {
		return nil, at, page.Err
	}
	names, scan, process, err := parseScan(page.Reply)
	switch {
	case err != nil:
		return nil, at, err
	case at.scan != scanEnd && process != at.process:
		return nil, at, errServerReplaced
	}
	return names, listCursor{node: at.node, scan: scan, owners: at.owners, process: process}, nil
}

// parseScan reads the reply of the list script.
func parseScan(reply any) (names []string, next, process string, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 3 {
		return nil, "", "", rediskit.UnexpectedReply(reply)
	}
	next, okNext := items[0].(string)
	list, okList := items[1].([]any)
	process, okProcess := items[2].(string)
	if _, bad := strconv.ParseUint(next, 10, 64); !okNext || bad != nil || !okList || !okProcess || len(process) > maxProcess {
		return nil, "", "", rediskit.UnexpectedReply(reply)
	}
	names = make([]string, len(list))
	for i, item := range list {
		if names[i], ok = item.(string); !ok {
			return nil, "", "", rediskit.UnexpectedReply(reply)
		}
	}
	return names, next, process, nil
}

// maxProcess bounds the run_id of a server, which has 40 characters. A cursor has at most 1,024.
const maxProcess = 100

// listPattern returns the pattern of SCAN for the locks whose names begin with prefix. The
// key of a lock ends with a brace, and the suffixes of all other keys do not; see keys.
func (s *Store) listPattern(prefix string) string {
	return globEscaper.Replace(s.prefix+"{"+prefix) + "*}"
}

// globEscaper escapes the characters that have a meaning in a pattern of Redis.
var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// lockName returns the name of the lock with a key of the server. It reports false if the key
// is not that of a lock.
func (s *Store) lockName(key string) (string, bool) {
	name, begins := strings.CutPrefix(key, s.prefix+"{")
	name, ends := strings.CutSuffix(name, "}")
	return name, begins && ends && checkKey(name) == nil
}

// scanEnd is the first cursor of SCAN, and its result after the last call.
const scanEnd = "0"

// listCursor is the cursor of List.
type listCursor struct {
	node    int    // index of a master
	scan    string // cursor of SCAN there
	owners  uint64 // a hash of the owners of all slots
	process string // run_id of the server that scan comes from; "" at the start, or if it is not known
}

// String returns the cursor as text.
func (c listCursor) String() string {
	return fmt.Sprintf("%x.%d.%s.%s", c.owners, c.node, c.scan, c.process)
}

// parseCursor reads a cursor. It returns an error if the owners of the slots differ from those that
// the cursor was made for. masters is the number of masters.
func parseCursor(text string, masters int, owners uint64) (listCursor, error) {
	at := listCursor{scan: scanEnd, owners: owners}
	if text == "" {
		return at, nil
	}
	var of listCursor
	parts := strings.Split(text, ".")
	bad := len(parts) != 4
	if !bad {
		var errs [3]error
		of.owners, errs[0] = strconv.ParseUint(parts[0], 16, 64)
		of.node, errs[1] = strconv.Atoi(parts[1])
		_, errs[2] = strconv.ParseUint(parts[2], 10, 64)
		of.scan, of.process = parts[2], parts[3]
		bad = errors.Join(errs[:]...) != nil
	}
	switch {
	case bad:
		return at, errors.New("the cursor is not one of List")
	case of.owners != at.owners, of.node < 0, of.node >= masters:
		return at, errMastersChanged
	}
	return of, nil
}

var (
	errMastersChanged = errors.New("slots of the cluster have changed their masters; list again from the start")
	errServerReplaced = errors.New("the server was restarted or replaced; list again from the start")
)
