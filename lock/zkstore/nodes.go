package zkstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// A lock is a container node, ROOT/KEY, and each of its holders and waiters is an ephemeral
// sequential node below it, OWNER-NNNNNNNNNN. Keys and owners are in base64 for URLs. The node with
// the lowest number holds the lock. Its creation is the token.

var encoding = base64.RawURLEncoding.Strict()

const digits = 10 // of the number of a sequential node

// lockPath returns the path of a lock.
func (s *Store) lockPath(key string) string {
	return s.root + "/" + encoding.EncodeToString([]byte(key))
}

// prefixPath returns the path of the nodes of an owner, without their numbers.
func (s *Store) prefixPath(key, owner string) string {
	return s.lockPath(key) + "/" + encoding.EncodeToString([]byte(owner)) + "-"
}

// node is a holder or a waiter.
type node struct {
	name   string
	owner  string
	number int
}

// parseNode returns the node of a name. It is not ok for a name that this package has not made.
func parseNode(name string) (node, bool) {
	at := len(name) - digits - 1
	if at < 1 || name[at] != '-' {
		return node{}, false
	}
	owner, err := encoding.DecodeString(name[:at])
	if err != nil {
		return node{}, false
	}
	number, err := strconv.Atoi(name[at+1:])
	if err != nil {
		return node{}, false
	}
	return node{name: name, owner: string(owner), number: number}, true
}

// content is the data of a node.
type content struct {
	TTL      int64  `json:"ttl"` // milliseconds
	Metadata []byte `json:"metadata,omitempty"`
}

func contentOf(ttl time.Duration, metadata string) []byte {
	data, err := json.Marshal(content{TTL: ttl.Milliseconds(), Metadata: []byte(metadata)})
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
func (s *Store) nodes(ctx context.Context, key string) (all []node, foreign bool, err error) {
	path := s.lockPath(key)
	names, err := ask(ctx, s.link, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(path)
		return names, err
	})
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

// lockNodes is nodes for a lock that must not have foreign data.
func (s *Store) lockNodes(ctx context.Context, key string) ([]node, error) {
	all, foreign, err := s.nodes(ctx, key)
	if err == nil && foreign {
		err = driver.ErrWrongType
	}
	return all, err
}

// find returns the place of the first node of an owner, -1 if there is none.
func find(all []node, owner string) int {
	return slices.IndexFunc(all, func(n node) bool { return n.owner == owner })
}

// seen is a node with its data.
type seen struct {
	content content
	stat    zk.Stat
}

func (s *Store) get(ctx context.Context, path string) (seen, error) {
	type answer struct {
		data []byte
		stat zk.Stat
	}
	a, err := ask(ctx, s.link, func(c *zk.Conn) (answer, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return answer{}, err
		}
		return answer{data, *stat}, nil
	})
	if err != nil {
		return seen{}, err
	}
	c, err := parseContent(a.data)
	return seen{c, a.stat}, err
}

// sync makes later reads see everything that was committed before.
func (s *Store) sync(ctx context.Context, path string) error {
	_, err := ask(ctx, s.link, func(c *zk.Conn) (string, error) { return c.Sync(path) })
	return err
}

func (s *Store) remove(ctx context.Context, path string) error {
	_, err := ask(ctx, s.link, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
	return err
}

// makePath creates the nodes of a path that are missing.
func (s *Store) makePath(ctx context.Context, path string) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		_, err := ask(ctx, s.link, func(c *zk.Conn) (string, error) {
			return c.Create(path[:at], nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create %s: %w", path[:at], err)
		}
	}
	return nil
}

// create creates a node for a request, and the lock node if that is missing. When the node is
// there, it is recorded, even if ctx has ended.
func (s *Store) create(ctx context.Context, r driver.Request, start time.Time) (path string, err error) {
	lock, prefix, data := s.lockPath(r.Key), s.prefixPath(r.Key, r.Owner), contentOf(r.TTL, r.Metadata())
	for range 3 {
		path, err = ask(ctx, s.link, func(c *zk.Conn) (string, error) {
			path, err := c.Create(prefix, data, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
			if err == nil {
				s.hold(leaseKey{r.Key, r.Owner}, path, start.Add(r.TTL))
			}
			return path, err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return path, err
		}
		_, err = ask(ctx, s.link, func(c *zk.Conn) (string, error) {
			return c.CreateContainer(lock, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
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
