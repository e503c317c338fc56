// A server whose answers the test chooses.

package testredis

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Wire is a server that answers what the test wants, byte by byte.
type Wire struct {
	Answer func(command []string) string // "" closes the connection
	Evals  atomic.Int64                  // EVALSHA and EVAL commands that have arrived
	conns  sync.WaitGroup
}

// Client starts the server and returns a client of it. Both end with the test.
func (w *Wire) Client(t testing.TB, o redis.Options) *redis.Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.Serve(conn)
		}
	})
	o.Addr = l.Addr().String()
	rdb := redis.NewClient(&o)
	t.Cleanup(func() {
		assert.NoError(t, rdb.Close())
		assert.NoError(t, l.Close())
		w.conns.Wait()
	})
	return rdb
}

// Serve answers the commands on a connection, in the background.
func (w *Wire) Serve(conn net.Conn) { w.conns.Go(func() { w.serve(conn) }) }

// Wait returns when all connections are closed.
func (w *Wire) Wait() { w.conns.Wait() }

func (w *Wire) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		command, err := ReadCommand(r)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		if name := strings.ToLower(command[0]); strings.HasPrefix(name, "eval") {
			w.Evals.Add(1)
			answer = w.Answer(command)
		} else if name != "hello" && name != "client" {
			answer = w.Answer(command)
		}
		if answer == "" {
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// ReadCommand reads one command, as clients send it.
func ReadCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLen(r, '*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := readLen(r, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		command[i] = string(arg[:size])
	}
	return command, nil
}

func readLen(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || line[0] != kind {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
