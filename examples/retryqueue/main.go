// Command retryqueue delivers messages and retries those that fail, after a pause that doubles with
// each try. The pauses are random, so that messages that failed together are not retried together:
//
//	go run ./examples/retryqueue -messages 10 -first 100ms
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run delivers some messages to a receiver that refuses each of them twice.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("retryqueue", flag.ContinueOnError)
	messages := flags.Int("messages", 10, "messages to deliver")
	first := flags.Duration("first", 100*time.Millisecond, "longest pause after the first try")
	if err := flags.Parse(args); err != nil {
		return err
	}
	logger := log.New(out, "", 0)
	d := &deliverer{first: *first, longest: time.Minute, send: func(m message) error {
		if m.tries <= 2 {
			return errors.New("busy")
		}
		logger.Printf("delivered message %d at try %d", m.id, m.tries)
		return nil
	}}
	d.open.Store(int64(*messages))
	for id := range *messages {
		if _, err := d.queue.Push(message{id: id}, time.Now()); err != nil {
			return err
		}
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { d.work(ctx) })
	}
	workers.Wait()
	if left := d.queue.Close(); len(left) > 0 {
		fmt.Fprintln(out, len(left), "messages are left") // a service would store them
	}
	return nil
}

type message struct {
	id, tries int
}

// deliverer sends the messages of a queue.
type deliverer struct {
	send           func(message) error
	first, longest time.Duration // pauses
	queue          heapqueue.Queue[message]
	open           atomic.Int64 // messages that are not delivered
}

// work sends messages until ctx ends or the queue is closed.
func (d *deliverer) work(ctx context.Context) {
	for {
		item, err := d.queue.Pop(ctx)
		if err != nil {
			return
		}
		m := item.Value
		m.tries++
		if d.send(m) == nil {
			if d.open.Add(-1) == 0 {
				d.queue.Close() // ends the other workers
			}
			continue
		}
		if _, err := d.queue.Push(m, time.Now().Add(d.pause(m.tries))); errors.Is(err, schedule.ErrClosed) {
			return
		}
	}
}

// pause returns the pause after a number of tries: a random part, at least half, of first, 2·first,
// 4·first and so on, up to longest.
func (d *deliverer) pause(tries int) time.Duration {
	pause := min(d.first<<min(tries-1, 20), d.longest)
	return pause/2 + rand.N(pause/2+1)
}
