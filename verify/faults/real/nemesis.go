// The nemesis: faults of the network and of the server, one after another.

package real

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// target is what the nemesis acts on.
type target struct {
	server *testredis.Server
	links  []*link       // one for each client
	admin  *redis.Client // connects without a link
}

// fault is one kind of fault. do lasts for length.
type fault struct {
	name string
	do   func(ctx context.Context, p *target, d simrand.Rand, length time.Duration) error
}

// network returns a fault of some of the links.
func network(name string, apply func(l *link, d simrand.Rand, ttl time.Duration) error, ttl time.Duration) fault {
	return fault{name, func(ctx context.Context, p *target, d simrand.Rand, length time.Duration) error {
		for _, l := range p.links {
			if d.Chance(600) {
				if err := apply(l, d, ttl); err != nil {
					return err
				}
			}
		}
		sleep(ctx, length)
		for _, l := range p.links {
			l.heal(ctx)
		}
		return nil
	}}
}

// networkFaults returns the faults of messages.
func networkFaults(ttl time.Duration) []fault {
	swallow := func(directions ...string) func(*link, simrand.Rand, time.Duration) error {
		return func(l *link, _ simrand.Rand, _ time.Duration) error {
			for _, direction := range directions {
				if err := l.addFault(direction, "timeout", map[string]int64{"timeout": 0}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []fault{
		network("latency", func(l *link, d simrand.Rand, ttl time.Duration) error {
			for _, direction := range []string{up, down} {
				if err := l.addFault(direction, "latency", map[string]int64{"latency": d.UpTo(2 * ttl).Milliseconds()}); err != nil {
					return err
				}
			}
			return nil
		}, ttl),
		network("requests swallowed", swallow(up), ttl),
		network("replies swallowed", swallow(down), ttl),
		network("both swallowed", swallow(up, down), ttl),
		network("connections reset", func(l *link, d simrand.Rand, _ time.Duration) error {
			return l.addFault(simrand.Pick(d, up, down), "reset_peer", map[string]int64{"timeout": 0})
		}, ttl),
		network("replies cut", func(l *link, d simrand.Rand, _ time.Duration) error {
			return l.addFault(down, "limit_data", map[string]int64{"bytes": int64(1 + d.IntN(300))})
		}, ttl),
		slowThenSilent(ttl),
	}
}

// slowThenSilent answers the last renewals late and then none. It finds deadlines that do
// not count from the sending of a renewal.
func slowThenSilent(ttl time.Duration) fault {
	return fault{"slow and then silent", func(ctx context.Context, p *target, _ simrand.Rand, _ time.Duration) error {
		half := p.links[:len(p.links)/2] // the other half acquires the locks that these lose
		for _, step := range []struct {
			kind, attribute string
			value           int64
			length          time.Duration
		}{
			{"latency", "latency", (ttl / 10).Milliseconds(), ttl},
			{"timeout", "timeout", 0, 3 * ttl / 2},
		} {
			for _, l := range half {
				for _, direction := range []string{up, down} {
					if err := l.addFault(direction, step.kind, map[string]int64{step.attribute: step.value}); err != nil {
						return err
					}
				}
			}
			sleep(ctx, step.length)
		}
		for _, l := range half {
			l.heal(ctx)
		}
		return nil
	}}
}

// serverFaults returns the faults of the server. A killed server restarts with its durable
// data.
func serverFaults() []fault {
	return []fault{
		{"server stopped", func(ctx context.Context, p *target, _ simrand.Rand, length time.Duration) error {
			if err := p.server.Stop(); err != nil {
				return err
			}
			sleep(ctx, length)
			return p.server.Cont()
		}},
		{"server killed", func(ctx context.Context, p *target, _ simrand.Rand, length time.Duration) error {
			p.server.Kill()
			sleep(ctx, length)
			return p.server.Restart()
		}},
		{"commands paused", func(ctx context.Context, p *target, d simrand.Rand, length time.Duration) error {
			args := []any{"CLIENT", "PAUSE", length.Milliseconds(), simrand.Pick(d, "ALL", "WRITE")}
			if !testredis.Since(6, 2) { // which pauses all commands and takes no argument
				args = args[:3]
			}
			return p.command(ctx, length, args...)
		}},
		{"clients killed", func(ctx context.Context, p *target, d simrand.Rand, _ time.Duration) error {
			return p.command(ctx, 0, "CLIENT", "KILL", "TYPE", simrand.Pick(d, "NORMAL", "PUBSUB"), "SKIPME", "YES")
		}},
		{"scripts flushed", func(ctx context.Context, p *target, _ simrand.Rand, _ time.Duration) error {
			return p.command(ctx, 0, "SCRIPT", "FLUSH")
		}},
		{"server asleep", func(ctx context.Context, p *target, _ simrand.Rand, length time.Duration) error {
			return p.command(ctx, 0, "DEBUG", "SLEEP", fmt.Sprintf("%.3f", length.Seconds()))
		}},
	}
}

// command sends the server a command and then sleeps.
func (p *target) command(ctx context.Context, length time.Duration, args ...any) error {
	if err := p.admin.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v: %w", args, err)
	}
	sleep(ctx, length)
	return nil
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
