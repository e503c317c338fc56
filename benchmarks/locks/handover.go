// Hand-overs between clients that contend for one lock.

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// holdTime is how long a client holds the contended lock.
const holdTime = 2 * time.Millisecond

// errNoHandOver means that one client always had the lock, or that none had it.
var errNoHandOver = errors.New("no hand-over between two clients")

// handOver holds the figures of clients that contend for one lock. Times are in µs.
type handOver struct {
	P50, P99  float64 // from the call of Unlock to the return of another client's Lock
	Ping      float64 // median round trip of a PING, before and after
	PingP99   float64
	Commands  float64 // per turn, counted by the server
	Jain      float64 // 1 if all clients had the lock equally often
	Rate      float64 // turns per second
	RedisCPU  float64 // per turn
	ClientCPU float64
	Others    float64 // cores that other processes of the machine used
}

// measureHandOver measures clients of one kind on a server of their own.
func measureHandOver(t task) (handOver, error) {
	r, err := measure(t)
	if err != nil {
		return handOver{}, err
	}
	n := float64(r.Count)
	return handOver{
		P50: us(r.P50), P99: us(r.P99), Ping: us(r.Ping), PingP99: us(r.PingP99),
		Commands: r.Commands / n, Jain: r.Jain, Rate: n / r.Took.Seconds(),
		RedisCPU: us(r.RedisCPU) / n, ClientCPU: us(r.CPU) / n, Others: r.Others,
	}, nil
}

// contention records the turns of the clients that contend for one lock.
type contention struct {
	mu        sync.Mutex // guards all fields below
	holder    int
	unlocking time.Time
	turns     []float64       // by client
	took      []time.Duration // times of hand-overs
}

// runHandOver measures hand-overs in the child. It measures after all clients have
// started to contend and before any of them stops.
func runHandOver(ctx context.Context, clients []client, t task) (childResult, error) {
	before, err := pings(ctx, t.Addr)
	if err != nil {
		return childResult{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := new(contention)
	c.reset(len(clients))
	var wg sync.WaitGroup
	for i, cl := range clients {
		wg.Go(func() {
			if err := c.run(ctx, cl, i); ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	var took []time.Duration
	var turns []float64
	sleep(ctx, t.Window/5)
	u, err := t.metered(ctx, func() error {
		c.reset(len(clients))
		sleep(ctx, t.Window)
		took, turns = c.reset(len(clients))
		return context.Cause(ctx)
	})
	cancel(context.Canceled)
	wg.Wait()
	if err != nil {
		return childResult{}, err
	}
	if len(took) == 0 {
		return childResult{}, errNoHandOver
	}
	after, err := pings(context.WithoutCancel(ctx), t.Addr)
	all := slices.Sorted(slices.Values(slices.Concat(before, after)))
	slices.Sort(took)
	count := 0.0
	for _, n := range turns {
		count += n
	}
	n := len(took)
	return childResult{
		usage: u, Count: int(count), P50: took[n/2], P99: took[n*99/100], Jain: jain(turns),
		Ping: all[len(all)/2], PingP99: all[len(all)*99/100],
	}, err
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// run locks and unlocks with one client until a call fails or ctx ends.
func (c *contention) run(ctx context.Context, cl client, i int) error {
	for {
		unlock, err := cl.lock(ctx, "bench")
		now := time.Now()
		if err != nil {
			return err
		}
		c.locked(i, now)
		time.Sleep(holdTime)
		c.willUnlock(i)
		if err := unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// locked records that a client has got the lock.
func (c *contention) locked(i int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns[i]++
	if i != c.holder && !c.unlocking.IsZero() {
		c.took = append(c.took, now.Sub(c.unlocking))
	}
}

// willUnlock records that the holder is about to unlock.
func (c *contention) willUnlock(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder, c.unlocking = i, time.Now()
}

// reset returns the records and starts new ones.
func (c *contention) reset(clients int) ([]time.Duration, []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, turns := c.took, c.turns
	c.took, c.turns = make([]time.Duration, 0, 1<<16), make([]float64, clients)
	return took, turns
}

// jain returns Jain's index of fairness: the square of the sum, divided by n times the
// sum of the squares.
func jain(turns []float64) float64 {
	var sum, squares float64
	for _, n := range turns {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(len(turns)) * squares)
}

// pings returns the round trip times of PINGs that are as far apart as hand-overs.
func pings(ctx context.Context, addr string) ([]time.Duration, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	conn := rdb.Conn()
	defer func() { _ = conn.Close() }()
	took := make([]time.Duration, 200)
	for i := range took {
		time.Sleep(holdTime)
		began := time.Now()
		if err := conn.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		took[i] = time.Since(began)
	}
	return took[1:], nil // the first one includes the dial
}
