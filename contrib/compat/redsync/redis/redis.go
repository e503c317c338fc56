// Package redis has the interfaces between package redsync and a Redis client. Subpackage
// goredis/v9 implements them for go-redis, and [Adapt] for the pools of the original. A program
// whose Pool is its own type changes the import of that type and nothing else.
package redis

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// Pool makes connections to one Redis server, or to one cluster. Package redsync calls it from
// many goroutines.
type Pool interface {
	// Get returns a connection whose commands use ctx. The caller closes it.
	Get(ctx context.Context) (Conn, error)
}

// Conn is a connection that is used by one goroutine at a time. A key that does not exist is no
// error: Get returns "" and SetNX reports what it did.
type Conn interface {
	// Get returns the value of a key, "" if there is none.
	Get(name string) (string, error)

	// Set sets a key without an expiry and reports whether the server did it.
	Set(name string, value string) (bool, error)

	// SetNX sets a key that does not exist, with an expiry, and reports whether it did.
	SetNX(name string, value string, expiry time.Duration) (bool, error)

	// Eval runs a script. The first Script.KeyCount values are keys, of type string. A script
	// that the server does not know is sent in full. A nil reply is no error.
	Eval(script *Script, keysAndArgs ...any) (any, error)

	// ScriptLoad sends a script to the server and sets its Hash to the answer.
	ScriptLoad(script *Script) error

	// PTTL returns the time until a key expires: -1 ns if it does not expire, -2 ns if it does
	// not exist.
	PTTL(name string) (time.Duration, error)

	// Close gives the connection back to its pool.
	Close() error
}

// Script is a Lua script.
type Script struct {
	KeyCount int    // number of keys at the start of the values
	Src      string // text
	Hash     string // SHA-1 of the text in hexadecimal digits
}

// NewScript returns a Script with the given fields. It does not check the hash.
func NewScript(keyCount int, src, hash string) *Script {
	return &Script{KeyCount: keyCount, Src: src, Hash: hash}
}

// Adapt returns a Pool that uses a pool of github.com/go-redsync/redsync/v4: of redigo, rueidis,
// valkey-go, or go-redis before v9. The type arguments are inferred:
//
//	pool := redis.Adapt(redigo.NewPool(&redigolib.Pool{…})) // of .../redsync/v4/redis/redigo
//	rs := redsync.New(pool)
//
// The function is generic so that this module does not depend on the original, which depends on all
// of these clients. Adapt returns nil for a nil pool. The client needs timeouts for reading and
// writing if it does not heed the context of a command. Without them a server that hangs keeps a
// goroutine and a connection for each request, although the call that sent it has returned.
func Adapt[C originalConn[S], S originalScript](pool interface {
	Get(ctx context.Context) (C, error)
},
) Pool {
	if basic.IsNil(pool) {
		return nil
	}
	return poolFunc(func(ctx context.Context) (Conn, error) {
		c, err := pool.Get(ctx)
		if err != nil {
			return nil, err
		}
		return adapted[S]{c}, nil
	})
}

// originalScript is satisfied by the Script of the original.
type originalScript interface {
	~struct {
		KeyCount int
		Src      string
		Hash     string
	}
}

// originalConn is satisfied by the Conn of the original.
type originalConn[S originalScript] interface {
	Get(name string) (string, error)
	Set(name string, value string) (bool, error)
	SetNX(name string, value string, expiry time.Duration) (bool, error)
	Eval(script *S, keysAndArgs ...any) (any, error)
	ScriptLoad(script *S) error
	PTTL(name string) (time.Duration, error)
	Close() error
}

type poolFunc func(ctx context.Context) (Conn, error)

func (f poolFunc) Get(ctx context.Context) (Conn, error) { return f(ctx) }

// adapted implements Conn.
type adapted[S originalScript] struct{ originalConn[S] }

func (a adapted[S]) Eval(script *Script, keysAndArgs ...any) (any, error) {
	s := S(*script)
	return a.originalConn.Eval(&s, keysAndArgs...)
}

func (a adapted[S]) ScriptLoad(script *Script) error {
	s := S(*script)
	err := a.originalConn.ScriptLoad(&s)
	*script = Script(s)
	return err
}
