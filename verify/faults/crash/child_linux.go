// The main function of a child process, and the roles holder and churner.

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// clientName is the name of the connections of child processes.
const clientName = "process"

// runChild executes an order until standard input is closed or the process is killed.
func runChild(o order) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr, ClientName: clientName})
	defer func() { _ = rdb.Close() }()
	client, err := connect(rdb, &lock.Options{
		Terms:  lock.Terms{TTL: o.TTL},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), // reports losses
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent has ended or closed the pipe
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	switch o.Role {
	case holder:
		return hold(ctx, client, o)
	case writer:
		return writeWithLocks(ctx, client, rdb, o)
	case churner:
		return churnLocks(ctx, client, o)
	case saver:
		return saveWithLocks(ctx, client, rdb, o)
	}
	return errors.New("unknown role: " + o.Role)
}

// connect returns a client on the server of rdb.
func connect(rdb *redis.Client, opts *lock.Options) (*lock.Client, error) {
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, opts)
}

// send writes a report for the parent.
func send(report any) error { return json.NewEncoder(os.Stdout).Encode(report) }

// lockAll acquires all locks and reports their tokens.
func lockAll(ctx context.Context, client *lock.Client, keys []string) (map[string]*lock.Held, error) {
	all := map[string]*lock.Held{}
	said := lockedReport{Tokens: map[string]uint64{}}
	for _, key := range keys {
		held, err := client.Mutex(key).Lock(ctx)
		if err != nil {
			return nil, err
		}
		all[key], said.Tokens[key] = held, held.Token()
	}
	return all, send(said)
}

// hasWaiter returns whether a holder also waits for this lock that it holds.
func hasWaiter(key string) bool { return strings.HasSuffix(key, "0") }

// hold holds its locks until SIGTERM and then closes the client. Other goroutines of the
// process wait for the same locks.
func hold(ctx context.Context, client *lock.Client, o order) error {
	if o.Mute { // the logger of go-redis must not block; see SAFETY.md
		logging.Disable()
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if _, err := lockAll(ctx, client, o.Keys); err != nil {
		return err
	}
	var waiting sync.WaitGroup
	for _, key := range o.Keys {
		if hasWaiter(key) {
			waiting.Go(func() { _, _ = client.Mutex(key).Lock(ctx) })
		}
	}
	<-asked
	const timeout = 10 * time.Second
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said closedReport
	if err := client.Close(bounded); err != nil {
		said.Err = err.Error()
	}
	waiting.Wait()
	said.Lost = client.Stats().Renewal.Lost()
	if err := send(said); err != nil || !o.Mute {
		return err
	}
	select {} // until it is killed: what it logged is still to be read
}

// churnLocks locks and unlocks as fast as possible, with two users for each key.
func churnLocks(ctx context.Context, client *lock.Client, o order) error {
	const usersOfAKey = 2
	var work sync.WaitGroup
	for _, key := range o.Keys {
		for range usersOfAKey {
			work.Go(func() {
				for ctx.Err() == nil {
					if held, err := client.Mutex(key).Lock(ctx); err == nil {
						_ = held.Unlock(ctx)
					}
				}
			})
		}
	}
	if err := send(lockedReport{}); err != nil {
		return err
	}
	work.Wait()
	return nil
}
