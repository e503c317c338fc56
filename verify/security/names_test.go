package security

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// commandLog records all commands that a client sends.
type commandLog struct {
	mu       sync.Mutex // guards commands
	commands [][]string
	work     sync.WaitGroup
}

func (e *commandLog) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	e.work.Go(func() { e.record(bufio.NewReader(r)) })
	return &loggedConn{Conn: conn, tap: w}, nil
}

// loggedConn is a connection whose writes are recorded.
type loggedConn struct {
	net.Conn
	tap *io.PipeWriter
}

// Write implements net.Conn.
func (c *loggedConn) Write(p []byte) (int, error) {
	_, _ = c.tap.Write(p)
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *loggedConn) Close() error {
	_ = c.tap.Close()
	return c.Conn.Close()
}

func (e *commandLog) record(r *bufio.Reader) {
	for {
		command, err := testredis.ReadCommand(r)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.commands = append(e.commands, command)
		e.mu.Unlock()
	}
}

// hostileNames have a meaning in code, commands, patterns or formats.
var hostileNames = []string{
	"') redis.call('FLUSHALL') --", "]] redis.call('FLUSHALL') --[[", "\"..redis.call('FLUSHALL')..\"", "KEYS[1]", "ARGV[1]", "%d%s%n%1$s", "$1", "\\", "\\0",
	"\r\n*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "\xff\xfe", "*", "?[a-z]*", "{}", "{a}{b}", "a}:t", "k}:x:owner", " ", "a b", "-1", "0", "nil", "EVAL", "\u202e", "'; DROP TABLE locks; --", "../../etc/passwd",
}

// TestNamesAreNeverCode uses locks with hostile names in every way. The client must send
// the same commands and scripts as for plain names, and names only as keys and arguments.
func TestNamesAreNeverCode(t *testing.T) {
	plain := make([]string, len(hostileNames))
	for i := range plain {
		plain[i] = fmt.Sprint("plain", i)
	}
	usual := recordCommands(t, plain)
	hostile := recordCommands(t, hostileNames)
	assert.Equal(t, usual.verbs, hostile.verbs)
	assert.Equal(t, usual.scripts, hostile.scripts)
	assert.Equal(t, map[string]bool{"eval": true, "evalsha": true, "subscribe": true}, hostile.verbs)
	assert.GreaterOrEqual(t, len(hostile.scripts), 5)
	assert.Greater(t, hostile.mentions, 5*len(hostileNames))
	report.Add("names        %d hostile ones, %d commands, %d scripts, the same as for plain ones", len(hostileNames), hostile.commands, len(hostile.scripts))
}

// wireSummary summarizes the commands of a client.
type wireSummary struct {
	commands, mentions int
	verbs              map[string]bool
	scripts            map[string]bool // digests
}

func recordCommands(t *testing.T, names []string) wireSummary {
	server := shared.Server(t)
	admin := server.Client(t)
	require.NoError(t, admin.Set(t.Context(), "lw:untouched", "1", 0).Err())
	require.NoError(t, admin.ScriptFlush(t.Context()).Err()) // so that each script is sent in full
	var e commandLog
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: e.dial})
	s, prefix := newStore(t, rdb)
	c, other := newClient(t, s, nil), newClient(t, keptOpen{s}, nil)
	for _, name := range names {
		use(t, s, c, other, name)
	}
	tokens := 0
	for _, key := range admin.Keys(t.Context(), prefix+"*").Val() {
		switch {
		case strings.HasSuffix(key, "}:t"):
			tokens++
		case !strings.Contains(key, "}:x:"): // a tombstone of an owner whose answer came after a message
			assert.Fail(t, "a key of a lock is left", "%q", key)
		}
	}
	assert.Equal(t, len(names), tokens, "each name leaves its last token")
	require.NoError(t, other.Close(t.Context()))
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, rdb.Close())
	e.work.Wait()

	h := wireSummary{verbs: map[string]bool{}, scripts: map[string]bool{}}
	for _, command := range e.commands {
		h.add(t, command, names, prefix)
	}
	assert.Equal(t, "1", admin.Get(t.Context(), "lw:untouched").Val())
	return h
}

// keptOpen is a store that its client does not close.
type keptOpen struct{ driver.Store }

func (keptOpen) Shutdown(context.Context) error { return nil }

func (h *wireSummary) add(t *testing.T, command, names []string, prefix string) {
	verb := strings.ToLower(command[0])
	h.commands++
	switch verb {
	case "hello", "client", "unsubscribe", "ping", "info": // sent by go-redis, during long waits, and for the run_id of the server
		return
	case "evalsha":
		h.scripts[command[1]] = true
	case "eval":
		sum := sha1.Sum([]byte(command[1]))
		h.scripts[hex.EncodeToString(sum[:])] = true
	}
	h.verbs[verb] = true
	if verb == "subscribe" {
		return
	}
	keys, err := strconv.Atoi(command[2])
	require.NoError(t, err)
	require.LessOrEqual(t, 3+keys, len(command))
	for i, key := range command[3 : 3+keys] {
		if strings.HasPrefix(key, prefix+"{"+prefix) { // of the message that a subscription sends to itself
			continue
		}
		require.True(t, named(key, names, prefix), "key %d is %q", i, key)
		h.mentions++
	}
}

// named returns whether a key belongs to a lock with one of the names.
func named(key string, names []string, prefix string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(key, prefix+"{"+name+"}") })
}

// use uses every operation of a lock.
func use(t *testing.T, s *redisstore.Store, c, other *lock.Client, name string) {
	ctx := t.Context()
	h, err := c.Mutex(name).Lock(ctx)
	require.NoError(t, err, "%q", name)
	_, err = other.Mutex(name).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	next := make(chan *lock.Held, 1)
	go func() {
		h, _ := c.Mutex(name).Lock(ctx)
		next <- h
	}()
	for {
		info, err := s.Inspect(ctx, name)
		require.NoError(t, err)
		if info.Waiting == 1 {
			break
		}
	}
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, s.Renew(ctx, []driver.Lease{{Request: request(name), Token: 1}}, outcomes(1)))
	h = <-next
	require.NotNil(t, h)
	require.NoError(t, s.ForceRelease(ctx, name))
	require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
}
