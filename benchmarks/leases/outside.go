package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lookEvery = 100 * time.Millisecond
	lookRate  = 1000 // keys looked at per second, in either way
)

// witness looks at the keys of one server from outside of the process that renews
// them, in two ways. It asks random keys how long they have to live. And it
// follows some keys, asking each four times in a period for the instant of its
// end: when that moves, the key was renewed a TTL before it. So the server's own
// clock tells when each renewal had its effect, whenever the witness looks.
type witness struct {
	node   *node
	keys   []string
	ttl    time.Duration
	period time.Duration

	followed []follow
	next     int // of followed
	record   bool
	seen     sightings
}

// follow is a key that is followed.
type follow struct {
	key string
	end time.Duration // since 1970; 0: not seen yet
}

// sightings are what witnesses saw.
type sightings struct {
	late  []time.Duration // by how much renewals of one key were more than a period apart; 0: they were not
	least time.Duration   // PTTL of a key that was there
}

func newWitness(n *node, keys []string, o order) *witness {
	w := &witness{node: n, keys: keys, ttl: o.TTL, period: o.period()}
	follows := min(len(keys), max(1, int(lookRate*w.period.Seconds()/4)))
	for _, i := range rand.Perm(len(keys))[:follows] {
		w.followed = append(w.followed, follow{key: keys[i]})
	}
	w.seen.least = o.TTL
	return w
}

// watch looks until ctx ends or for the given time.
func (w *witness) watch(ctx context.Context, d time.Duration) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for until := time.Now().Add(d); time.Now().Before(until); {
		if err := w.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// look is one round trip.
func (w *witness) look(ctx context.Context) error {
	atOnce := min(int(lookRate*lookEvery.Seconds()), len(w.followed))
	ends := make([]*redis.DurationCmd, atOnce)
	lives := make([]*redis.DurationCmd, atOnce)
	_, err := w.node.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for k := range ends {
			ends[k] = p.PExpireTime(ctx, w.followed[(w.next+k)%len(w.followed)].key)
			lives[k] = p.PTTL(ctx, w.keys[rand.IntN(len(w.keys))])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k := range ends {
		w.moved(&w.followed[(w.next+k)%len(w.followed)], ends[k].Val())
		w.lives(lives[k].Val())
	}
	w.next = (w.next + atOnce) % len(w.followed)
	return nil
}

// moved notes the end of a key that is followed.
func (w *witness) moved(f *follow, end time.Duration) {
	switch {
	case end <= 0:
		f.end = 0 // it is gone, or has no end
	case f.end == 0:
		f.end = end
	case end != f.end:
		if w.record {
			w.seen.late = append(w.seen.late, max(0, end-f.end-w.period))
		}
		f.end = end
	}
}

// lives notes how long a random key has to live. What is gone is counted at the end.
func (w *witness) lives(ttl time.Duration) {
	if w.record && ttl >= 0 {
		w.seen.least = min(w.seen.least, ttl)
	}
}

// begin lets what was seen so far be forgotten, and what comes be noted.
func (w *witness) begin() {
	w.record = true
	w.seen = sightings{least: w.ttl}
}

// quantile returns a lateness that the given part does not exceed.
func (s sightings) quantile(part float64) time.Duration {
	if len(s.late) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.late))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
