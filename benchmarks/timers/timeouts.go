// The samples of timeouts: of a select statement, and of a context.

package main

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// timeouts is an engine with a timeout for a select statement and one for a context.
type timeouts interface {
	// after returns a channel that is closed or receives a value after d.
	after(d time.Duration) any
	withTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

func (std) after(d time.Duration) any { return time.After(d) }

func (std) withTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d)
}

func (o ownEngine) after(d time.Duration) any { return o.Scheduler.(*wheel.Wheel).After(d) }

func (o ownEngine) withTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return schedule.WithTimeout(parent, o.Scheduler, d)
}

func (a antlabsWheel) after(d time.Duration) any {
	over := make(chan struct{})
	a.AfterFunc(d, func() { close(over) })
	return over
}

func (a antlabsWheel) withTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	timer := a.AfterFunc(d, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// channels measures the channel of a timeout of 5 s: beyond one reading of the clock, and with
// 100 calls a tick.
func channels[H any](e engine[H], s spec) values {
	const timeout, perTick = 5 * time.Second, 100
	t, v, base := e.(timeouts), values{}, time.Now()
	clock := timed(func() {
		for range batch {
			time.Since(base)
		}
	}, s.For)
	timed(func() {
		for range batch {
			t.after(timeout)
		}
	}, s.For).put(v, "")
	v["beyond"] = v["cpu"] - float64(clock.cpu)/clock.n

	var last any
	made, ticks := 0.0, max(1, int(s.For/s.Tick))
	m := startMeter()
	for range ticks {
		for range perTick {
			if c := t.after(timeout); c != last {
				made, last = made+1, c
			}
		}
		time.Sleep(s.Tick)
	}
	c := m.stop()
	v["calls.allocs"] = c.allocs / float64(ticks*perTick)
	v["calls.channels"] = made / (c.wall.Seconds() / s.Tick.Seconds())
	return v
}

// contexts measures a context with a timeout and its cancel while s.Pending others are pending:
// plain, with Done, and with a child.
func contexts[H any](e engine[H], s spec) values {
	t, v, rng := e.(timeouts), values{}, seed
	background := context.Background()
	cancels := make([]context.CancelFunc, s.Pending)
	for i := range cancels {
		var ctx context.Context
		ctx, cancels[i] = t.withTimeout(background, rng.longDelay())
		ctx.Done()
	}
	for _, x := range []struct {
		name string
		use  func(context.Context)
	}{
		{"plain", func(context.Context) {}},
		{"done", func(ctx context.Context) { ctx.Done() }},
		{"child", func(ctx context.Context) {
			child, cancel := context.WithCancel(ctx)
			child.Done()
			cancel()
		}},
	} {
		timed(func() {
			for range batch {
				ctx, cancel := t.withTimeout(background, shortDelay)
				x.use(ctx)
				cancel()
			}
		}, s.For).put(v, x.name+".")
	}
	for _, cancel := range cancels {
		cancel()
	}
	return v
}
