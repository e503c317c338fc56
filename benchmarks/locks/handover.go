package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// hold is for how long a lock is held that others wait for.
const hold = 2 * time.Millisecond

// errNeverHandedOver: one client had the lock again and again, or none had it.
var errNeverHandedOver = errors.New("the lock was never handed over")

// handOver is what was measured of clients that contend for one lock. Times are in µs.
type handOver struct {
	P50, P99  float64 // from the call of unlock to the return of another client's lock
	Ping      float64 // median round trip of a PING, before and after
	PingP99   float64
	Commands  float64 // by the server's count, per turn
	Jain      float64 // 1: all had the lock equally often
	Rate      float64 // turns per second
	RedisCPU  float64 // per turn
	ClientCPU float64
	Others    float64 // share of a core that other processes of the machine took
}

// measureHandOver measures clients of one kind on a server of their own.
func measureHandOver(o order) (handOver, error) {
	a, err := measure(o)
	if err != nil {
		return handOver{}, err
	}
	n := float64(a.Count)
	return handOver{
		P50: us(a.P50), P99: us(a.P99), Ping: us(a.Ping), PingP99: us(a.PingP99),
		Commands: a.Commands / n, Jain: a.Jain, Rate: n / a.Took.Seconds(),
		RedisCPU: us(a.RedisCPU) / n, ClientCPU: us(a.CPU) / n, Others: a.Others,
	}, nil
}

// contest is one lock and those who contend for it.
type contest struct {
	mu        sync.Mutex // guards all below; who has the lock is alone anyway
	holder    int
	unlocking time.Time
	turns     []float64       // of each client
	took      []time.Duration // from one client to another
}

// runHandOver is what the child does. It measures in the midst of a contest: all have
// their place, connections and scripts by then, and nobody has given up.
func runHandOver(ctx context.Context, clients []client, o order) (answer, error) {
	before, err := pings(ctx, o.Addr)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := new(contest)
	c.reset(len(clients))
	var wg sync.WaitGroup
	for i, cl := range clients {
		wg.Go(func() {
			if err := c.take(ctx, cl, i); ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	var took []time.Duration
	var turns []float64
	rest(ctx, o.Window/5)
	u, err := o.metered(ctx, func() error {
		c.reset(len(clients))
		rest(ctx, o.Window)
		took, turns = c.reset(len(clients))
		return context.Cause(ctx)
	})
	cancel(context.Canceled)
	wg.Wait()
	if err != nil {
		return answer{}, err
	}
	if len(took) == 0 {
		return answer{}, errNeverHandedOver
	}
	after, err := pings(context.WithoutCancel(ctx), o.Addr)
	all := slices.Sorted(slices.Values(slices.Concat(before, after)))
	slices.Sort(took)
	count := 0.0
	for _, n := range turns {
		count += n
	}
	n := len(took)
	return answer{
		usage: u, Count: int(count), P50: took[n/2], P99: took[n*99/100], Jain: jain(turns),
		Ping: all[len(all)/2], PingP99: all[len(all)*99/100],
	}, err
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// take has a client lock and unlock until ctx ends or that fails.
func (c *contest) take(ctx context.Context, cl client, i int) error {
	for {
		unlock, err := cl.wait(ctx, "bench")
		now := time.Now()
		if err != nil {
			return err
		}
		c.locked(i, now)
		time.Sleep(hold)
		c.unlocks(i)
		if err := unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// locked notes that a client has the lock.
func (c *contest) locked(i int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns[i]++
	if i != c.holder && !c.unlocking.IsZero() {
		c.took = append(c.took, now.Sub(c.unlocking))
	}
}

// unlocks notes that its holder is about to give it back.
func (c *contest) unlocks(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder, c.unlocking = i, time.Now()
}

// reset begins to count anew, and returns what was counted.
func (c *contest) reset(clients int) ([]time.Duration, []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, turns := c.took, c.turns
	c.took, c.turns = make([]time.Duration, 0, 1<<16), make([]float64, clients)
	return took, turns
}

// jain is Jain's index of fairness: the square of the sum over n times the sum of
// the squares.
func jain(turns []float64) float64 {
	var sum, squares float64
	for _, n := range turns {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(len(turns)) * squares)
}

// pings returns how long the server takes to answer, asked as seldom as a lock here
// is handed over.
func pings(ctx context.Context, addr string) ([]time.Duration, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	conn := rdb.Conn()
	defer func() { _ = conn.Close() }()
	took := make([]time.Duration, 200)
	for i := range took {
		time.Sleep(hold)
		began := time.Now()
		if err := conn.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		took[i] = time.Since(began)
	}
	return took[1:], nil // the first one made the connection
}
