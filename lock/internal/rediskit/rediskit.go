// Package rediskit is shared by the stores on Redis: packages redisstore, redlock and redisson. It
// renews and releases their leases in batches, reports the events of their
// connections, and shuts them down.
package rediskit

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/leasewheel/leasewheel/internal/luascript"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Errors of calls that cannot be sent.
var (
	ErrNilContext = redisnode.ErrNilContext
	ErrZeroStore  = redisconn.ErrZeroStore
)

// UnexpectedReply returns the error of a reply that the script does not return. It shows only the
// shape of the reply, because the content may be an owner.
func UnexpectedReply(reply any) error {
	if items, ok := reply.([]any); ok {
		return fmt.Errorf("unexpected reply with %d elements", len(items))
	}
	return fmt.Errorf("unexpected reply type %T", reply)
}

// ParseDone reads the reply of a script that does something only for the holder: 1 if it has done that, or 0.
func ParseDone(reply any) error {
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return driver.ErrNotHeld
	}
	return UnexpectedReply(reply)
}

// The defaults of options, and their bounds.
const (
	DefaultTimeout  = 3 * time.Second
	DefaultPoolSize = 16
	maxPoolSize     = 10_000 // go-redis allocates room for all of them at once
)

// CheckOptions checks the options that all stores have, and sets their defaults. Errors begin with the name of the store.
func CheckOptions(store string, timeout *time.Duration, poolSize *int) error {
	*timeout, *poolSize = cmp.Or(*timeout, DefaultTimeout), cmp.Or(*poolSize, DefaultPoolSize)
	switch {
	case *timeout < 0:
		return fmt.Errorf("%s: Options.Timeout must be above 0, got %v", store, *timeout)
	case *poolSize < 0 || *poolSize > maxPoolSize:
		return fmt.Errorf("%s: Options.PoolSize must be 1 to %d, got %d", store, maxPoolSize, *poolSize)
	}
	return nil
}

// tombstone is how long the server refuses an owner that was released with an
// unanswered request. It must exceed the longest time that such a request can be on
// its way.
const tombstone = 60 * time.Second

// Refuse returns for how long the server must refuse later requests of the owner of a lease that is released.
func Refuse(l *driver.Lease) time.Duration {
	if l.Unanswered {
		return tombstone
	}
	return 0
}

// Source returns the text of the script lua/name.lua and of the files that it requires. It panics if one of them does not exist.
func Source(files embed.FS, name string) string {
	source, err := luascript.Assemble(name, func(name string) (string, error) {
		text, err := fs.ReadFile(files, "lua/"+name+".lua")
		return string(text), err
	})
	if err != nil {
		panic(err)
	}
	return source
}
