// Package redis has the interfaces between package redsync and a Redis client. Subpackage
// goredis/v9 implements them for go-redis. A program whose Pool is its own type changes the
// import of that type and nothing else.
package redis

import (
	"context"
	"time"
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
