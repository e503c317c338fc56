package redsync

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
)

// node is a server in memory, and the pool of its connections. Keys do not expire.
type node struct {
	mu      sync.Mutex        // guards all below
	keys    map[string]string // values
	calls   int               // number of commands
	instead func(ctx context.Context, command string) error
}

// nodes returns n servers and a Redsync on them.
func nodes(n int) ([]*node, *redsync.Redsync) {
	list, pools := make([]*node, n), make([]redis.Pool, n)
	for i := range list {
		list[i] = &node{keys: map[string]string{}}
		pools[i] = list[i]
	}
	return list, redsync.New(pools...)
}

// before sets a function that is called before each command, which is not executed if the
// function returns an error.
func (n *node) before(f func(ctx context.Context, command string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.instead = f
}

// hang makes the node answer nothing, whatever the context of a command, until the channel is
// closed. Then it executes the commands.
func (n *node) hang() chan struct{} {
	end := make(chan struct{})
	n.before(func(context.Context, string) error {
		<-end
		return nil
	})
	return end
}

// slow makes each command take some time.
func (n *node) slow(d time.Duration) {
	n.before(func(context.Context, string) error {
		time.Sleep(d)
		return nil
	})
}

// value returns the value of a key, "" if there is none.
func (n *node) value(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys[key]
}

// count returns the number of commands.
func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

// onNodes runs a test in a bubble, on n nodes.
func onNodes(t *testing.T, n int, test func(t *testing.T, list []*node, rs *redsync.Redsync)) {
	synctest.Test(t, func(t *testing.T) {
		list, rs := nodes(n)
		test(t, list, rs)
	})
}

// resume ends the hangs, and checks that no node has the key "k" then.
func resume(t *testing.T, list []*node, hung ...chan struct{}) {
	for _, c := range hung {
		close(c)
	}
	assertFree(t, list, "k")
}

// assertFree checks that no node has the key when all goroutines are blocked.
func assertFree(t *testing.T, list []*node, key string) {
	synctest.Wait()
	for i, n := range list {
		assert.Empty(t, n.value(key), "node %d", i)
	}
}

func (n *node) Get(ctx context.Context) (redis.Conn, error) { return nodeConn{n, ctx}, nil }

type nodeConn struct {
	node *node
	ctx  context.Context
}

// do executes a command.
func (c nodeConn) do(command string, f func(keys map[string]string)) error {
	c.node.mu.Lock()
	c.node.calls++
	instead := c.node.instead
	c.node.mu.Unlock()
	if instead != nil {
		if err := instead(c.ctx, command); err != nil {
			return err
		}
	}
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	f(c.node.keys)
	return nil
}

func (c nodeConn) Get(name string) (value string, err error) {
	err = c.do("get", func(keys map[string]string) { value = keys[name] })
	return value, err
}

func (c nodeConn) SetNX(name, value string, _ time.Duration) (ok bool, err error) {
	err = c.do("setnx", func(keys map[string]string) {
		if keys[name] == "" {
			keys[name], ok = value, true
		}
	})
	return ok, err
}

func (c nodeConn) Eval(script *redis.Script, keysAndArgs ...any) (answer any, err error) {
	name, value := keysAndArgs[0].(string), keysAndArgs[1].(string)
	releases, restores := strings.Contains(script.Src, "'DEL'"), strings.Contains(script.Src, "'SET'")
	command := "extend"
	if releases {
		command = "release"
	}
	err = c.do(command, func(keys map[string]string) {
		answer = int64(0)
		switch found := keys[name]; {
		case found == value && releases:
			delete(keys, name)
			answer = int64(1)
		case found == value, found == "" && restores:
			keys[name], answer = value, int64(1)
		case found == "" && releases:
			answer = int64(-1)
		}
	})
	return answer, err
}

func (c nodeConn) Set(string, string) (bool, error)        { panic("not used") }
func (c nodeConn) ScriptLoad(*redis.Script) error          { panic("not used") }
func (c nodeConn) PTTL(name string) (time.Duration, error) { panic("not used") }
func (c nodeConn) Close() error                            { return nil }
