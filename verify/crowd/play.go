package crowd

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const clients = 6

// game is one play: random requests from a seed.
type game struct {
	rng    *rand.Rand
	rules  *rules
	server *server

	mode   byte      // of most requests: read stands for write, too
	now    []*client // an acquisition of each client
	past   []*client // those that have ended; their messages may come yet
	serial int
	log    []string
	counts *counts
}

// client is one acquisition.
type client struct {
	ask
	token uint64 // the last that it was told
}

// counts are what plays were about.
type counts struct {
	requests, granted, queued, refused, wrongType, served, renewed, lost, released, left, forced int
}

func (c *counts) add(o counts) {
	c.requests += o.requests
	c.granted += o.granted
	c.queued += o.queued
	c.refused += o.refused
	c.wrongType += o.wrongType
	c.served += o.served
	c.renewed += o.renewed
	c.lost += o.lost
	c.released += o.released
	c.left += o.left
	c.forced += o.forced
}

// play plays a game of so many requests, and returns the first difference.
func play(s *server, seed uint64, requests int, c *counts) error {
	const start = 1_800_000_000_000
	s.reset(start)
	g := &game{
		rng:    rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // a seed names a game
		rules:  newRules(start),
		server: s,
		counts: c,
	}
	g.mode = []byte{read, permit, members}[seed%3]
	for range clients {
		g.now = append(g.now, g.newClient())
	}
	for range requests {
		g.counts.requests++
		if err := g.step(); err != nil {
			return fmt.Errorf("seed %d: %s\n%w", seed, strings.Join(g.log, "\n"), err)
		}
	}
	return nil
}

func (g *game) note(format string, args ...any) {
	g.log = append(g.log, fmt.Sprintf("%d: ", g.rules.now%1e9)+fmt.Sprintf(format, args...))
}

// newClient returns an acquisition that asks for something at random.
func (g *game) newClient() *client {
	g.serial++
	c := &client{ask: ask{
		owner: fmt.Sprintf("c%d:%d", g.rng.IntN(clients), g.serial),
		mode:  g.mode,
		ttl:   []int64{100, 200, 1000, 50_000}[g.rng.IntN(4)],
	}}
	if g.rng.IntN(60) == 0 {
		c.mode = []byte{read, permit, members}[g.rng.IntN(3)]
	}
	if g.rng.IntN(3) > 0 {
		c.place = c.ttl / int64(1+g.rng.IntN(3))
	}
	switch c.mode {
	case read:
		if g.rng.IntN(3) == 0 {
			c.mode = write
		}
	case permit:
		c.limit = 1 + g.rng.IntN(4)
	case members:
		for _, m := range "abcdef" {
			if g.rng.IntN(3) == 0 {
				c.members += string(m)
			}
		}
		c.members += string(rune('g' + g.rng.IntN(2)))
	}
	return c
}

// step does one thing at random.
func (g *game) step() error {
	i := g.rng.IntN(clients)
	c := g.now[i]
	if len(g.past) > 0 && g.rng.IntN(15) == 0 {
		c = g.past[g.rng.IntN(len(g.past))] // a message that is late
	}
	switch n := g.rng.IntN(100); {
	case n < 40:
		return g.acquire(c)
	case n < 50:
		return g.renew(c)
	case n < 68:
		g.past, g.now[i] = append(g.past, g.now[i]), g.newClient()
		return g.release(c)
	case n < 72: // it dies
		g.past, g.now[i] = append(g.past, g.now[i]), g.newClient()
		return nil
	case n < 75 && c.mode == write:
		late := *c
		g.past = append(g.past, &late)
		c.mode = read
		return g.acquire(c)
	case n < 76:
		return g.force()
	case n < 77:
		return g.harm()
	default:
		return g.pass([]int64{1, 5, 20, 50, 100, 333, 1000, 20_000, 700_000}[min(g.rng.IntN(12), g.rng.IntN(9))])
	}
}

func (g *game) acquire(c *client) error {
	g.note("acquire %+v", c.ask)
	g.rules.begin()
	_, again := g.rules.leases[c.owner]
	want := g.rules.acquire(c.ask)
	got, err := g.server.acquire(c.ask)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the answer is %+v, and not %+v", got, want)
	}
	switch got.code {
	case 1:
		g.counts.granted++
		if c.token != 0 && c.token < got.token {
			g.counts.served++
		}
		c.token = got.token
	case 0:
		g.counts.queued++
		c.token = max(c.token, got.token)
		if c.place == 0 {
			return g.compare()
		}
	case -1:
		g.counts.refused++
	default:
		g.counts.wrongType++
	}
	if err := g.compare(); err != nil || again {
		return err
	}
	if p := g.rules.placeOf(c.owner); got.code == 1 || p != nil && p.mode == c.mode {
		return g.server.strays() // whoever gets a lease, or a place, clears them away
	}
	return nil
}

func (g *game) renew(c *client) error {
	token := c.token
	if l := g.rules.leases[c.owner]; l != nil && g.rng.IntN(4) > 0 {
		token = l.token // a signal told it
	}
	g.note("renew %s %d", c.owner, token)
	want := g.rules.renew(c.owner, token, c.ttl)
	got, err := g.server.renew(c.owner, token, c.ttl)
	switch {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("it is renewed: %v, and not %v", got, want)
	case got:
		g.counts.renewed++
	default:
		g.counts.lost++
	}
	return g.compare()
}

func (g *game) release(c *client) error {
	tombstone := int64(g.rng.IntN(2)) * 60_000
	g.note("release %s %d", c.owner, tombstone)
	want := g.rules.release(c.owner, tombstone)
	got, err := g.server.release(c.owner, tombstone)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("released: %d, and not %d", got, want)
	}
	switch got {
	case 1:
		g.counts.released++
	case 2:
		g.counts.left++
	}
	return g.compare()
}

func (g *game) force() error {
	g.rules.begin()
	var seen uint64
	for _, l := range g.rules.leases {
		if l.token > seen {
			seen = l.token
		}
	}
	seen -= min(seen, uint64(g.rng.IntN(3)))
	g.note("force %d", seen)
	want := g.rules.force(seen)
	got, err := g.server.force(seen)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("forced: %d, and not %d", got, want)
	}
	g.counts.forced += got
	return g.compare()
}

// harm is what may happen to the data of a server.
func (g *game) harm() error {
	if g.rng.IntN(2) == 0 {
		g.note("the holders are deleted")
		g.server.mini.Del(keys[0])
		clear(g.rules.leases)
		return nil
	}
	g.note("everything is deleted")
	g.server.mini.FlushAll()
	now := g.rules.now
	*g.rules = *newRules(now)
	return g.pass(10) // tokens are of the clock
}

func (g *game) pass(ms int64) error {
	g.note("%d ms pass", ms)
	g.rules.now += ms
	g.server.advance(ms)
	g.server.forget(g.rules)
	return nil
}

func (g *game) compare() error {
	if what := g.rules.broken(); what != "" {
		return fmt.Errorf("the rules are wrong: %s", what)
	}
	return g.server.compare(g.rules)
}
