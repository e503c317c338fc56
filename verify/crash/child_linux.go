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

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// clientName is that of the connections of processes.
const clientName = "process"

// obey does what is ordered, until standard input ends or the process is.
func obey(o order) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr, ClientName: clientName})
	defer func() { _ = rdb.Close() }()
	client, err := connect(rdb, &lock.Options{
		Terms:  lock.Terms{TTL: o.TTL},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), // what it lost, and why
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent has gone, or wants no more
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	switch o.Role {
	case holder:
		return hold(ctx, client, o)
	case zombie:
		return linger(ctx, client, rdb, o)
	case flood:
		return rush(ctx, client, o)
	}
	return errors.New("no such role: " + o.Role)
}

// connect returns a client of the server of another.
func connect(rdb *redis.Client, opts *lock.Options) (*lock.Client, error) {
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, opts)
}

// say tells the parent.
func say(report any) error { return json.NewEncoder(os.Stdout).Encode(report) }

// takeAll gets all locks, and says so.
func takeAll(ctx context.Context, client *lock.Client, keys []string) (map[string]*lock.Held, error) {
	all := map[string]*lock.Held{}
	said := holding{Tokens: map[string]uint64{}}
	for _, key := range keys {
		held, err := client.Mutex(key).Lock(ctx)
		if err != nil {
			return nil, err
		}
		all[key], said.Tokens[key] = held, held.Token()
	}
	return all, say(said)
}

// waitedFor tells whether a holder also waits for a lock that it holds.
func waitedFor(key string) bool { return strings.HasSuffix(key, "0") }

// hold keeps its locks until SIGTERM, and then closes the client. Others of its
// goroutines wait for the same locks meanwhile.
func hold(ctx context.Context, client *lock.Client, o order) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if _, err := takeAll(ctx, client, o.Keys); err != nil {
		return err
	}
	var waiting sync.WaitGroup
	for _, key := range o.Keys {
		if waitedFor(key) {
			waiting.Go(func() { _, _ = client.Mutex(key).Lock(ctx) })
		}
	}
	<-asked
	const patience = 10 * time.Second
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var said closed
	if err := client.Close(bounded); err != nil {
		said.Err = err.Error()
	}
	waiting.Wait()
	said.Lost = client.Stats().Renewal.Lost()
	return say(said)
}

// rush takes locks and gives them back as fast as it can, a few users for each key.
func rush(ctx context.Context, client *lock.Client, o order) error {
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
	if err := say(holding{}); err != nil {
		return err
	}
	work.Wait()
	return nil
}
