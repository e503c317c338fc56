// The process of a holder in a proof.

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// holderEnv is set in the environment of the process that holds the lock of a proof. Its value
// is the URL of the store.
const holderEnv = "RENEWDEMO_HOLDER"

// A message of the holder is a line with its name, an instant in Unix nanoseconds, and a value:
//
//	has       the holder has the lock; the value is the token
//	renewed   the store has renewed the lock; the instant is that of the request
//	last      the latest step of the holder that saw Valid true
//	invalid   the first step that saw Valid false
//	notified  the channel of Done was closed
//
// The commands to the holder are "lock KEY TTL-IN-MS" and, to block all its renewals from then
// on, "cut". The holder ends when its input ends.

// runHolder is the holder as a process of its own.
func runHolder(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	b, err := open(ctx, config{store: url})
	if err != nil {
		return err
	}
	defer b.Disconnect()
	return holdLock(ctx, b, in, out)
}

// holdLock locks the key that the first command names, and then takes a step each millisecond until
// the lock is lost. It returns when the input ends.
func holdLock(ctx context.Context, b *backend, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands := bufio.NewScanner(in)
	if !commands.Scan() {
		return commands.Err()
	}
	var key string
	var ms int64
	if _, err := fmt.Sscanf(commands.Text(), "lock %s %d", &key, &ms); err != nil {
		return fmt.Errorf("command %q: %w", commands.Text(), err)
	}
	ttl := time.Duration(ms) * time.Millisecond
	var mu sync.Mutex // guards out
	send := func(what string, at time.Time, value uint64) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, what, at.UnixNano(), value)
	}
	store := newFaultStore(b)
	store.renewed = func(sent time.Time) { send("renewed", sent, 0) }
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}, Logger: silent})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	held, err := client.Mutex(key).Lock(ctx)
	if err != nil {
		return err
	}
	send("has", time.Now(), held.Token())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-held.Done():
			send("notified", time.Now(), 0)
		case <-ctx.Done():
		}
	})
	wg.Go(func() { work(ctx, held, send) })
	for commands.Scan() {
		if strings.TrimSpace(commands.Text()) == "cut" {
			store.hang()
		}
	}
	return commands.Err()
}

// work takes steps while the lock is valid. The instant of a step is taken before Valid, so that
// the lock was certainly valid at that instant.
func work(ctx context.Context, held *lock.Held, send func(what string, at time.Time, value uint64)) {
	last := time.Now()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		now := time.Now()
		if !held.Valid() {
			send("last", last, 0)
			send("invalid", now, 0)
			return
		}
		last = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
