// Random operations on the reference and on the scripts, and their comparison.

package shared

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const clients = 6

// comparison sends random operations to the reference and to the scripts.
type comparison struct {
	renewals  int // every second one goes key by key
	rng       *rand.Rand
	terms     *rand.Rand // changed TTLs and numbers of permits
	keeps     *rand.Rand // how long released batches keep their members taken
	reference *reference
	server    *server

	mode   byte      // of most requests; read also stands for write
	now    []*client // the current acquisition of each client
	past   []*client // acquisitions that have ended; late messages may still arrive
	serial int
	trace  []string
}

// client is one acquisition.
type client struct {
	request
	token uint64 // the last token that the client has received
}

// runComparison runs random operations and returns the first difference.
func runComparison(s *server, seed uint64, requests int) error {
	const start = 1_800_000_000_000
	s.reset(start)
	g := &comparison{
		rng:       rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // a seed names a game
		terms:     rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a seed names a game
		keeps:     rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // a seed names a game
		reference: newReference(start),
		server:    s,
	}
	g.mode = []byte{read, permit, members}[seed%3]
	for range clients {
		g.now = append(g.now, g.newClient())
	}
	for range requests {
		if err := g.step(); err != nil {
			return fmt.Errorf("seed %d: %s\n%w", seed, strings.Join(g.trace, "\n"), err)
		}
	}
	return nil
}

func (g *comparison) tracef(format string, args ...any) {
	g.trace = append(g.trace, fmt.Sprintf("%d: ", g.reference.now%1e9)+fmt.Sprintf(format, args...))
}

// newClient returns an acquisition with a random request.
func (g *comparison) newClient() *client {
	g.serial++
	c := &client{request: request{
		owner: fmt.Sprintf("c%d:%d", g.rng.IntN(clients), g.serial),
		mode:  g.mode,
		ttl:   randomTTL(g.rng),
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
		c.permits = 1 + g.terms.IntN(c.limit)*g.terms.IntN(2)
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

func randomTTL(rng *rand.Rand) int64 { return []int64{100, 200, 1000, 50_000}[rng.IntN(4)] }

// step does one random operation.
func (g *comparison) step() error {
	i := g.rng.IntN(clients)
	c := g.now[i]
	if len(g.past) > 0 && g.rng.IntN(15) == 0 {
		c = g.past[g.rng.IntN(len(g.past))] // a late message
	}
	switch n := g.rng.IntN(100); {
	case n < 40:
		return g.acquire(c)
	case n < 50:
		return g.renew(c)
	case n < 68:
		g.past, g.now[i] = append(g.past, g.now[i]), g.newClient()
		return g.release(c)
	case n < 72: // the client crashes
		g.past, g.now[i] = append(g.past, g.now[i]), g.newClient()
		return nil
	case n < 75 && c.mode == write:
		late := *c
		g.past = append(g.past, &late)
		c.mode = read
		if err := g.acquire(c); err != nil {
			return err
		}
		return g.renew(&late) // a renewal of the writer that arrives late
	case n < 76:
		return g.force()
	case n < 77:
		return g.damageData()
	default:
		return g.advance([]int64{1, 5, 20, 50, 100, 333, 1000, 20_000, 700_000}[min(g.rng.IntN(12), g.rng.IntN(9))])
	}
}

func (g *comparison) acquire(c *client) error {
	unsent := c.mode == members && g.rng.IntN(2) == 0
	g.tracef("acquire %+v, members unsent: %v", c.request, unsent)
	g.reference.expire()
	_, again := g.reference.leases[c.owner]
	poll := g.reference.placeOf(c.owner) != nil && c.mode == members
	take := g.reference.acquire
	if unsent {
		take = g.reference.acquireUnsent
	}
	want := take(c.request)
	got, err := g.server.acquire(c.request, unsent)
	if err != nil {
		return err
	}
	if poll && got.code == 0 && got.ms > 0 && g.reference.blocksFor(c.request, got.ms) {
		want.ms = got.ms
	}
	if got != want {
		return fmt.Errorf("reply %+v, want %+v", got, want)
	}
	switch got.code {
	case 1:
		c.token = got.token
	case 0:
		c.token = max(c.token, got.token)
		if c.place == 0 {
			return g.compare()
		}
	case 3:
		return g.compare()
	}
	if err := g.compare(); err != nil || again {
		return err
	}
	if p := g.reference.placeOf(c.owner); got.code == 1 || p != nil && p.mode == c.mode {
		return g.server.checkOrphans() // a request that gets a lease or a place removes orphaned records
	}
	return nil
}

func (g *comparison) renew(c *client) error {
	token := c.token
	if l := g.reference.leases[c.owner]; l != nil && g.rng.IntN(4) > 0 {
		token = l.token // as if a signal had delivered it
	}
	r := c.request
	if g.terms.IntN(3) == 0 {
		r.ttl = randomTTL(g.terms) // the holder has changed the TTL
	}
	want := g.reference.renew(c.owner, token, r.ttl)
	var got bool
	var err error
	if g.renewals++; g.renewals%2 == 0 {
		g.tracef("renew %s %d for %d key by key", c.owner, token, r.ttl)
		got, err = g.server.renewByKey(r, token)
	} else {
		g.tracef("renew %s %d for %d", c.owner, token, r.ttl)
		got, err = g.server.renew(c.owner, token, r.ttl)
	}
	switch {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("renewed %v, want %v", got, want)
	}
	return g.compare()
}

func (g *comparison) release(c *client) error {
	tombstone := int64(g.rng.IntN(2)) * 60_000
	keep := g.randomKeep(c)
	g.tracef("release %s %d, and keep it for %d", c.owner, tombstone, keep)
	want := g.reference.release(c.owner, tombstone, keep)
	got, err := g.server.release(c.owner, tombstone, keep)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("release replied %d, want %d", got, want)
	}
	if err := g.compare(); err != nil || got != 1 || keep == 0 {
		return err
	}
	return g.lateMessage(c)
}

// lateMessage sends a message of an owner whose batch has just been released and is kept.
func (g *comparison) lateMessage(c *client) error {
	switch g.keeps.IntN(5) {
	case 0, 1:
		return g.renew(c)
	case 2:
		return g.acquire(c)
	case 3:
		return g.release(c)
	}
	return nil
}

// randomKeep returns for how many ms a release keeps the members of a batch taken.
func (g *comparison) randomKeep(c *client) int64 {
	if c.mode != members || g.keeps.IntN(2) == 0 {
		return 0
	}
	return []int64{1, 50, 300, 5000, 100_000}[g.keeps.IntN(5)]
}

func (g *comparison) force() error {
	g.reference.expire()
	var seen uint64
	for _, l := range g.reference.leases {
		seen = max(seen, l.token)
	}
	seen -= min(seen, uint64(g.rng.IntN(3)))
	g.tracef("force %d", seen)
	want := g.reference.force(seen)
	got, err := g.server.force(seen)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("forced %d leases, want %d", got, want)
	}
	return g.compare()
}

// damageData deletes some or all keys of the server.
func (g *comparison) damageData() error {
	if g.reference.expire(); len(g.reference.leases) == 0 && len(g.reference.queue) == 0 {
		return g.abandonedMutexes()
	}
	if g.rng.IntN(2) == 0 {
		g.tracef("the holders are deleted")
		g.server.mini.Del(keys[0])
		clear(g.reference.leases)
		return nil
	}
	g.tracef("everything is deleted")
	g.server.mini.FlushAll()
	now := g.reference.now
	*g.reference = *newReference(now)
	return g.advance(10) // new tokens follow from the clock
}

// abandonedMutexes writes the queue of a mutex of the same name whose waiters have
// crashed. The next request must ignore it.
func (g *comparison) abandonedMutexes() error {
	g.tracef("a mutex leaves its queue behind")
	mini := g.server.mini
	mini.Del(keys[2])
	mini.Del(keys[3])
	_, err := mini.Push(keys[2], "dead:1", "dead:2")
	if err == nil {
		_, err = mini.ZAdd(keys[3], float64(g.reference.now), "dead:1")
	}
	if err != nil {
		return err
	}
	mini.SetTTL(keys[2], time.Hour)
	mini.SetTTL(keys[3], time.Hour)
	g.past, g.now[0] = append(g.past, g.now[0]), g.newClient()
	return g.acquire(g.now[0])
}

func (g *comparison) advance(ms int64) error {
	g.tracef("%d ms pass", ms)
	g.reference.now += ms
	g.server.advance(ms)
	g.server.dropExpiredPlaces(g.reference)
	return nil
}

func (g *comparison) compare() error {
	if what := g.reference.violation(); what != "" {
		return fmt.Errorf("reference: %s", what)
	}
	return g.server.compare(g.reference)
}
