// Clients whose faults are known: the harness must find them.

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// mutants break a promise of this project's client.
var mutants = map[string]func(h *lock.Held, g *grant){
	"told late": func(h *lock.Held, g *grant) {
		var ends atomic.Pointer[time.Time]
		g.holds = func() bool {
			if h.Valid() {
				return true
			}
			end := time.Now().Add(lease / 4)
			ends.CompareAndSwap(nil, &end)
			return time.Now().Before(*ends.Load())
		}
	},
	"told only by the server": func(h *lock.Held, g *grant) {
		g.holds = func() bool {
			var lost *renewal.LostError
			return !errors.As(h.Err(), &lost) || lost.Reason != renewal.ReasonNotOwned
		}
	},
	"not released": func(h *lock.Held, g *grant) {
		if !strings.HasPrefix(h.Key(), "warm") {
			g.release = func(context.Context) error { return nil }
		}
	},
}

// candidateOrMutant returns a candidate, or one that is a mutant of this project's.
func candidateOrMutant(name string) (*candidate, error) {
	change, ok := mutants[name]
	if !ok {
		return find(name)
	}
	c, err := find(ours)
	if err != nil {
		return nil, err
	}
	c.name, c.open = name, func(ctx context.Context, addrs []string) (acquirer, error) {
		s, err := oursOnRedis(ctx, addrs)
		if err != nil {
			return nil, err
		}
		client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: lease}, Logger: slog.New(slog.DiscardHandler)})
		return func(ctx context.Context, key string) (*grant, error) {
			h, err := client.Mutex(key).Lock(ctx)
			if err != nil {
				return nil, err
			}
			g := &grant{h.Valid, h.Token(), h.Unlock}
			change(h, g)
			return g, nil
		}, err
	}
	return c, nil
}
