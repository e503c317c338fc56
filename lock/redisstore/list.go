package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var _ driver.Lister = (*Store)(nil)

// keysPerScan is about how many keys of the server one call of List looks at, locks or not.
// SCAN takes about 0.1 ms for them, and the server executes nothing else in that time.
const keysPerScan = 500

// List implements [driver.Lister] with SCAN. The calls visit all keys of the database, on
// a cluster those of one master after another. Options.Timeout bounds each call. The first
// call asks a cluster for its masters, and a later one returns an error if these have changed.
// If a single server has been replaced or restarted between two calls, keys may be missing.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	keys, next, err = s.list(ctx, prefix, cursor)
	if err != nil {
		return nil, "", failed("list", prefix, err)
	}
	return keys, next, nil
}

func (s *Store) list(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	switch {
	case ctx == nil:
		return nil, "", rediskit.ErrNilContext
	case s.redis == nil:
		return nil, "", rediskit.ErrZeroStore
	}
	masters, err := s.redis.AllMasters(ctx, cursor == "")
	if err != nil {
		return nil, "", rediskit.FromConn(err)
	}
	at, err := parseCursor(cursor, masters)
	if err != nil {
		return nil, "", err
	}
	names, scanned, err := s.scan(ctx, masters[at.node], at.scan, s.listPattern(prefix))
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		if key, ok := s.lockName(name); ok && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	at.scan = scanned
	if at.scan == scanEnd {
		at.node++
	}
	if at.node < len(masters) {
		next = at.String()
	}
	return keys, next, nil
}

// scan runs one SCAN on a node.
func (s *Store) scan(ctx context.Context, n *redisconn.Node, cursor, pattern string) (names []string, next string, err error) {
	call := &redisconn.Call{Script: listScript, Args: []any{nil, nil, 0, &cursor, &pattern, keysPerScan}}
	until, err := s.runAll(ctx, n, []*redisconn.Call{call})
	if err != nil {
		return nil, "", err
	}
	if call.Err != nil {
		return nil, "", rediskit.FromConn(s.redis.Explain(ctx, until, call.Err))
	}
	return parseScan(call.Reply)
}

// parseScan reads the reply of SCAN.
func parseScan(reply any) (names []string, next string, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 2 {
		return nil, "", rediskit.UnexpectedReply(reply)
	}
	next, okNext := items[0].(string)
	list, okList := items[1].([]any)
	if _, bad := strconv.ParseUint(next, 10, 64); !okNext || bad != nil || !okList {
		return nil, "", rediskit.UnexpectedReply(reply)
	}
	names = make([]string, len(list))
	for i, item := range list {
		if names[i], ok = item.(string); !ok {
			return nil, "", rediskit.UnexpectedReply(reply)
		}
	}
	return names, next, nil
}

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
	masters uint64 // a hash of the addresses of all masters
}

// String returns the cursor as text.
func (c listCursor) String() string { return fmt.Sprintf("%x.%d.%s", c.masters, c.node, c.scan) }

// parseCursor reads a cursor. It returns an error if the masters are not those that
// the cursor was made for.
func parseCursor(text string, masters []*redisconn.Node) (listCursor, error) {
	at := listCursor{scan: scanEnd, masters: hashOf(masters)}
	if text == "" {
		return at, nil
	}
	var of listCursor
	parts := strings.Split(text, ".")
	bad := len(parts) != 3
	if !bad {
		var errs [3]error
		of.masters, errs[0] = strconv.ParseUint(parts[0], 16, 64)
		of.node, errs[1] = strconv.Atoi(parts[1])
		_, errs[2] = strconv.ParseUint(parts[2], 10, 64)
		of.scan = parts[2]
		bad = errors.Join(errs[:]...) != nil
	}
	switch {
	case bad:
		return at, errors.New("the cursor is not one of List")
	case of.masters != at.masters, of.node < 0, of.node >= len(masters):
		return at, errMastersChanged
	}
	return of, nil
}

var errMastersChanged = errors.New("the masters of the cluster have changed; list again from the start")

// hashOf returns a hash of the addresses of nodes.
func hashOf(nodes []*redisconn.Node) uint64 {
	h := fnv.New64a()
	for _, n := range nodes {
		_, _ = h.Write(slices.Concat([]byte(n.Addr()), []byte{0}))
	}
	return h.Sum64()
}
