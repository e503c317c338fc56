// The nodes of a lock: their names, their data and their order.

package zkstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// A lock is a container node, ROOT/KEY, and each of its holders and waiters is an ephemeral
// sequential node below it, OWNER-NNNNNNNNNN. Keys and owners are in base64 for URLs. The node with
// the lowest number holds the lock. Its creation is the token.
//
// The nodes of readers are r.OWNER-NNNNNNNNNN and those of writers w.OWNER-NNNNNNNNNN. A reader holds
// the lock if there is no writer with a lower number. A writer that has become a reader keeps its
// node, whose data shows it. It is the first node then, and stays it.

// The server counts the nodes that a lock has ever had in 31 bits, and may give the last number again and
// again. So an owner takes no place behind a node whose number is numbers or higher: the lock becomes
// free, and its node is removed together with the last node below it. The next one has the number 0.
const numbers = 1 << 30

var encoding = base64.RawURLEncoding.Strict()

const digits = 10 // of the number of a sequential node

// lockPath returns the path of a lock.
func (s *Store) lockPath(key string) string {
	return s.root + "/" + encoding.EncodeToString([]byte(key))
}

// letters begin the names of the nodes of a mode.
var letters = map[driver.Mode]string{driver.Exclusive: "", driver.Read: "r.", driver.Write: "w."}

// prefixPath returns the path of the node of a request, without its number.
func (s *Store) prefixPath(r driver.Request) string {
	return s.lockPath(r.Key) + "/" + letters[r.Mode] + encoding.EncodeToString([]byte(r.Owner)) + "-"
}

// node is a holder or a waiter.
type node struct {
	name    string
	owner   string
	number  int
	mode    driver.Mode
	version int32 // of the data that shows that the mode is still Write; noVersion if it was not read
}

const noVersion = -1

// parseNode returns the node of a name. It is not ok for a name that this package has not made, or for
// a number that the server may give again.
func parseNode(name string) (node, bool) {
	at := len(name) - digits - 1
	if at < 1 || name[at] != '-' {
		return node{}, false
	}
	mode, text := driver.Exclusive, name[:at]
	for m, letter := range letters {
		if rest, ok := strings.CutPrefix(text, letter); ok && letter != "" {
			mode, text = m, rest
		}
	}
	owner, err := encoding.DecodeString(text)
	if err != nil {
		return node{}, false
	}
	number, err := strconv.Atoi(name[at+1:])
	if err != nil || number >= math.MaxInt32 {
		return node{}, false
	}
	return node{name: name, owner: string(owner), number: number, mode: mode, version: noVersion}, true
}

// content is the data of a node.
type content struct {
	TTL      int64  `json:"ttl"`              // milliseconds
	Reader   bool   `json:"reader,omitempty"` // a writer has become a reader
	Metadata []byte `json:"metadata,omitempty"`
}

func (c content) encode() []byte {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // no value of the type fails
	}
	return data
}

func parseContent(data []byte) (content, error) {
	var c content
	if err := json.Unmarshal(data, &c); err != nil || c.TTL <= 0 {
		return c, driver.ErrWrongType
	}
	return c, nil
}

// nodes returns the nodes of a lock in the order of their numbers. Names that this package has not
// made are left out, and reported as foreign.
func (s *client) nodes(ctx context.Context, key string) (all []node, foreign bool, err error) {
	names, err := s.children(ctx, s.lockPath(key))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if n, ok := parseNode(name); ok {
			all = append(all, n)
		} else {
			foreign = true
		}
	}
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.number, b.number) })
	return all, foreign, nil
}

// lockNodes is nodes for a lock that must not have foreign data. If the first node is that of a
// writer which has become a reader, its mode is Read.
func (s *client) lockNodes(ctx context.Context, key string) ([]node, error) {
	all, foreign, err := s.nodes(ctx, key)
	if err == nil && foreign {
		err = driver.ErrWrongType
	}
	if err != nil || len(all) == 0 || all[0].mode != driver.Write {
		return all, err
	}
	got, err := s.get(ctx, s.lockPath(key)+"/"+all[0].name)
	switch {
	case errors.Is(err, zk.ErrNoNode): // it has gone just now
	case err != nil:
		return nil, err
	case got.content.Reader:
		all[0].mode = driver.Read
	default:
		all[0].version = got.stat.Version
	}
	return all, nil
}

// nodesFor is lockNodes for a request. The lock must not be held in another family of modes.
func (s *client) nodesFor(ctx context.Context, r driver.Request) ([]node, error) {
	all, err := s.lockNodes(ctx, r.Key)
	if err == nil && len(all) > 0 && (all[0].mode == driver.Exclusive) != (r.Mode == driver.Exclusive) {
		err = driver.ErrWrongType
	}
	return all, err
}

// isWorn reports whether the lock with these nodes must become free before another one is created.
func (s *Store) isWorn(all []node) bool { return len(all) > 0 && all[len(all)-1].number >= s.numbers }

// find returns the place of the first node of an owner, -1 if there is none.
func find(all []node, owner string) int {
	return slices.IndexFunc(all, func(n node) bool { return n.owner == owner })
}

// before returns the place of the node that must go before the node at a place holds the lock, -1
// if it holds the lock. The place may be the one after the last.
func before(all []node, at int, mode driver.Mode) int {
	if at == 0 || mode != driver.Read {
		return at - 1
	}
	for at--; at >= 0 && all[at].mode == driver.Read; at-- {
		continue
	}
	return at
}

// holders returns the number of nodes that hold the lock. They are the first ones.
func holders(all []node) int {
	n := 0
	for n < len(all) && before(all, n, all[n].mode) < 0 {
		n++
	}
	return n
}

// seen is a node with its data.
type seen struct {
	content content
	stat    zk.Stat
}

func (s *client) get(ctx context.Context, path string) (seen, error) {
	return ask(ctx, s.link, func(c *zk.Conn) (seen, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return seen{}, err
		}
		content, err := parseContent(data)
		return seen{content, *stat}, err
	})
}

// change changes the data of a node. It tries again if another change comes between.
func (s *client) change(ctx context.Context, path string, f func(n *seen) error) error {
	for range attempts {
		got, err := s.get(ctx, path)
		if err == nil {
			err = f(&got)
		}
		if err == nil {
			_, err = ask(ctx, s.link, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(path, got.content.encode(), got.stat.Version) })
		}
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return errors.New("the data of the node changes all the time")
}

func (s *client) children(ctx context.Context, path string) ([]string, error) {
	return ask(ctx, s.link, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(path)
		return names, err
	})
}

// multi executes operations in one transaction.
func (s *client) multi(ctx context.Context, ops ...any) error {
	_, err := ask(ctx, s.link, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
	return err
}

// sync makes later reads see everything that was committed before. The node need not exist.
func (s *client) sync(ctx context.Context, path string) error {
	_, err := ask(ctx, s.link, func(c *zk.Conn) (string, error) { return c.Sync(path) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// remove removes a node, and that of its lock if it is the last one of a lock that is worn.
func (s *client) remove(ctx context.Context, path string) error {
	at := strings.LastIndexByte(path, '/')
	if n, ok := parseNode(path[at+1:]); ok && n.number >= s.numbers {
		err := s.multi(ctx, &zk.DeleteRequest{Path: path, Version: -1}, &zk.DeleteRequest{Path: path[:at], Version: -1})
		if !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
	}
	_, err := ask(ctx, s.link, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
	return err
}

// makePath creates the nodes of a path that are missing.
func (s *client) makePath(ctx context.Context, path string) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		_, err := ask(ctx, s.link, func(c *zk.Conn) (string, error) {
			if ok, _, err := c.Exists(path[:at]); ok || err != nil { // which needs no permission
				return "", err
			}
			return c.Create(path[:at], nil, zk.FlagPersistent, s.acl)
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create %s: %w", path[:at], err)
		}
	}
	return nil
}

// create creates a node for a request, and the lock node if that is missing. When the node is
// there, it is recorded, even if ctx has ended. A creation without an answer is recorded, too.
func (s *client) create(ctx context.Context, r driver.Request, start time.Time) (path string, err error) {
	lock, prefix := s.lockPath(r.Key), s.prefixPath(r)
	k, until := leaseKey{r.Key, r.Owner}, start.Add(r.TTL)
	data := content{TTL: r.TTL.Milliseconds(), Metadata: []byte(r.Metadata())}.encode()
	for range 3 {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if !s.willCreate(k, len(prefix)+digits, until) {
			return "", errNoRoom
		}
		path, err = request(ctx, s.link, func(c *zk.Conn) (string, error) {
			path, err := c.Create(prefix, data, zk.FlagEphemeralSequential, s.acl)
			if err == nil {
				s.hold(k, path, until)
			}
			s.created(k, err == nil || errors.Is(err, zk.ErrNoNode))
			return path, err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return path, err
		}
		_, err = ask(ctx, s.link, func(c *zk.Conn) (string, error) {
			return c.CreateContainer(lock, nil, zk.FlagContainer, s.acl)
		})
		if errors.Is(err, zk.ErrNoNode) {
			err = s.makePath(ctx, s.root)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", err
		}
	}
	return "", errors.New("the node of the lock is removed all the time")
}
