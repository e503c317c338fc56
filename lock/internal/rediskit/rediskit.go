// Package rediskit is shared by the stores on Redis: packages redisstore, redlock and redisson. It
// renews and releases their leases in batches, checks their options, assembles their scripts, reports the events of their
// connections, and shuts them down.
package rediskit

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/luascript"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
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
	defaultTimeout  = 3 * time.Second
	DefaultPoolSize = 16
	maxPoolSize     = 10_000 // go-redis allocates room for all of them at once
)

// CheckOptions checks the options that all stores have, and sets their defaults. Errors begin with the name of the store.
func CheckOptions(store string, timeout *time.Duration, poolSize *int) error {
	*timeout, *poolSize = cmp.Or(*timeout, defaultTimeout), cmp.Or(*poolSize, DefaultPoolSize)
	switch {
	case *timeout < 0:
		return fmt.Errorf("%s: Options.Timeout must be above 0, got %v", store, *timeout)
	case *poolSize < 0 || *poolSize > maxPoolSize:
		return fmt.Errorf("%s: Options.PoolSize must be 1 to %d, got %d", store, maxPoolSize, *poolSize)
	}
	return nil
}

// Tombstone is how long the server refuses an owner that was released with an
// unanswered request. It must exceed the longest time that such a request can be on
// its way.
const Tombstone = 60 * time.Second

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

// ReportEvents is the ReportEvents of a store whose client is c, which may be nil. Node.ID, which is 0 for a single server, must
// be the lane of the leases on a node.
func ReportEvents(c *redisconn.Client, report func(renewal.Event)) {
	if c != nil && report != nil {
		c.ReportEvents(report)
	}
}

// NoMessages returns the function Unconfirmed of the subscriptions of a store, which reports an event once.
func NoMessages(c *redisconn.Client) func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			c.Report(renewal.Event{Kind: renewal.EventNoMessages, Lane: renewal.AllLanes, Detail: c.Explain(context.Background(), err).Error()})
		})
	}
}

const closeTimeout = time.Second

var errStillRunning = fmt.Errorf("a function of the redis.Options is still running after %v", closeTimeout)

// Close calls the Shutdown of a store with a ctx that ends after one second.
func Close(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout, errStillRunning)
	defer cancel()
	return shutdown(ctx)
}

// Shutdown is the Shutdown of a store: it ends all calls of its client, and calls end on another
// goroutine, once. If ctx ends first, Shutdown returns the cause of ctx, and the goroutine ends when end
// returns. client is nil for a zero store. Errors begin with the name of the store.
func Shutdown(ctx context.Context, store string, client *redisconn.Client, closing *basic.Closing, end func() error) error {
	switch {
	case ctx == nil:
		return basic.Failed(store, "close", ErrNilContext)
	case client == nil:
		return basic.Failed(store, "close", ErrZeroStore)
	}
	return closing.Do(ctx, func() error {
		client.Cancel()
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = end()
		}()
		if late := basic.Await(ctx, ended); late != nil {
			return basic.Failed(store, "close", late)
		}
		return basic.Failed(store, "close", err)
	})
}
