package real

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// place is where faults happen.
type place struct {
	server *testredis.Server
	links  []*link       // of the clients
	admin  *redis.Client // past the links
}

// fault is one kind of trouble. It goes on for as long as is said, except that a
// server which is told to sleep or pause ends that by itself.
type fault struct {
	name string
	do   func(ctx context.Context, p *place, d chance.Dice, length time.Duration) error
}

// network makes a fault of something that is done to some of the links.
func network(name string, spoil func(l *link, d chance.Dice, ttl time.Duration) error, ttl time.Duration) fault {
	return fault{name, func(ctx context.Context, p *place, d chance.Dice, length time.Duration) error {
		for _, l := range p.links {
			if d.Chance(600) {
				if err := spoil(l, d, ttl); err != nil {
					return err
				}
			}
		}
		rest(ctx, length)
		for _, l := range p.links {
			l.heal(ctx)
		}
		return nil
	}}
}

// networkFaults are what happens to messages.
func networkFaults(ttl time.Duration) []fault {
	swallow := func(directions ...string) func(*link, chance.Dice, time.Duration) error {
		return func(l *link, _ chance.Dice, _ time.Duration) error {
			for _, direction := range directions {
				if err := l.spoil(direction, "timeout", map[string]int64{"timeout": 0}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []fault{
		network("latency", func(l *link, d chance.Dice, ttl time.Duration) error {
			for _, direction := range []string{up, down} {
				if err := l.spoil(direction, "latency", map[string]int64{"latency": d.UpTo(2 * ttl).Milliseconds()}); err != nil {
					return err
				}
			}
			return nil
		}, ttl),
		network("requests swallowed", swallow(up), ttl),
		network("replies swallowed", swallow(down), ttl),
		network("both swallowed", swallow(up, down), ttl),
		network("connections reset", func(l *link, d chance.Dice, _ time.Duration) error {
			return l.spoil(chance.Pick(d, up, down), "reset_peer", map[string]int64{"timeout": 0})
		}, ttl),
		network("replies cut", func(l *link, d chance.Dice, _ time.Duration) error {
			return l.spoil(down, "limit_data", map[string]int64{"bytes": int64(1 + d.IntN(300))})
		}, ttl),
		slowThenSilent(ttl),
	}
}

// slowThenSilent is what finds out whether deadlines count from the sending: the last
// renewals that are answered are answered late, and no other is. It takes its time.
func slowThenSilent(ttl time.Duration) fault {
	return fault{"slow and then silent", func(ctx context.Context, p *place, _ chance.Dice, _ time.Duration) error {
		half := p.links[:len(p.links)/2] // the others get what these lose
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
					if err := l.spoil(direction, step.kind, map[string]int64{step.attribute: step.value}); err != nil {
						return err
					}
				}
			}
			rest(ctx, step.length)
		}
		for _, l := range half {
			l.heal(ctx)
		}
		return nil
	}}
}

// serverFaults are what happens to the server. It is started again with what it had
// made durable.
func serverFaults() []fault {
	return []fault{
		{"server stopped", func(ctx context.Context, p *place, _ chance.Dice, length time.Duration) error {
			if err := p.server.Stop(); err != nil {
				return err
			}
			rest(ctx, length)
			return p.server.Cont()
		}},
		{"server killed", func(ctx context.Context, p *place, _ chance.Dice, length time.Duration) error {
			p.server.Kill()
			rest(ctx, length)
			return p.server.Restart()
		}},
		{"commands paused", func(ctx context.Context, p *place, d chance.Dice, length time.Duration) error {
			return p.ask(ctx, length, "CLIENT", "PAUSE", length.Milliseconds(), chance.Pick(d, "ALL", "WRITE"))
		}},
		{"clients killed", func(ctx context.Context, p *place, d chance.Dice, _ time.Duration) error {
			return p.ask(ctx, 0, "CLIENT", "KILL", "TYPE", chance.Pick(d, "NORMAL", "PUBSUB"), "SKIPME", "YES")
		}},
		{"scripts flushed", func(ctx context.Context, p *place, _ chance.Dice, _ time.Duration) error {
			return p.ask(ctx, 0, "SCRIPT", "FLUSH")
		}},
		{"server asleep", func(ctx context.Context, p *place, _ chance.Dice, length time.Duration) error {
			return p.ask(ctx, 0, "DEBUG", "SLEEP", fmt.Sprintf("%.3f", length.Seconds()))
		}},
	}
}

// ask sends the server a command and rests.
func (p *place) ask(ctx context.Context, length time.Duration, command ...any) error {
	if err := p.admin.Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("%v: %w", command, err)
	}
	rest(ctx, length)
	return nil
}

// rest waits.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// nemesis does the faults one after another, each once in every round, until ctx ends
// or there is to be no other round; it counts them by name. A fault lasts up to twice
// the TTL.
func nemesis(ctx context.Context, p *place, d chance.Dice, ttl time.Duration, another func(rounds int) bool) (map[string]int, error) {
	faults := append(networkFaults(ttl), serverFaults()...)
	done := map[string]int{}
	for rounds := 0; another(rounds); rounds++ {
		d.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			length := ttl / 10
			if d.Chance(700) {
				length = d.UpTo(2 * ttl)
			}
			if err := f.do(ctx, p, d, length); err != nil {
				return done, fmt.Errorf("%s: %w", f.name, err)
			}
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			done[f.name]++
			rest(ctx, d.UpTo(ttl))
		}
	}
	return done, nil
}
