// The waits of clients: the inspection of locks, and the choice of the waits that may be deadlocked.

package waitgraph

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// wait records that a client has places in the queue of a key.
type wait struct {
	key     string
	place   driver.Place    // the first one
	holders []driver.Holder // not empty
	some    bool            // the wait may end when some of the holders have left
}

// waitsOf returns the waits for the locks in infos, one for each client and key, in a fixed
// order. It leaves out a key of which not all holders are known if any of them may end a wait.
func waitsOf(infos map[string]lock.Info) []*wait {
	var waits []*wait
	for _, key := range slices.Sorted(maps.Keys(infos)) {
		info := infos[key]
		mode := info.Places[0].Mode
		some := mode == driver.Permit || mode == driver.Members
		if some && info.Held > len(info.Holders) {
			continue
		}
		seen := make(map[string]bool)
		for _, p := range info.Places {
			if !seen[p.Client] {
				seen[p.Client] = true
				waits = append(waits, &wait{key, p, info.Holders, some})
			}
		}
	}
	return waits
}

// confirmed returns the waits of after that were in before, with the holders that they had
// before and after.
func confirmed(before, after []*wait) []*wait {
	type id struct{ client, key string }
	old := make(map[id]*wait)
	for _, w := range before {
		old[id{w.place.Client, w.key}] = w
	}
	var waits []*wait
	for _, w := range after {
		was := old[id{w.place.Client, w.key}]
		if was == nil {
			continue
		}
		var same []driver.Holder
		for _, h := range w.holders {
			if slices.ContainsFunc(was.holders, func(o driver.Holder) bool { return o.Token == h.Token && o.Client == h.Client }) {
				same = append(same, h)
			}
		}
		if len(same) == 0 || w.some && len(same) < len(w.holders) {
			continue
		}
		waits = append(waits, &wait{w.key, w.place, same, w.some})
	}
	return waits
}

// blocked returns the waits that cannot end before another wait of the result has ended. A
// wait can end if nothing that it waits for is held by a client with such a wait. It keeps the
// order.
func blocked(waits []*wait) []*wait {
	remaining := make(map[string]int)  // client → number of its waits that may be blocked
	behind := make(map[string][]*wait) // client → the waits for a lease of it
	ended := make(map[*wait]bool)
	for _, w := range waits {
		remaining[w.place.Client]++
		for _, h := range w.holders {
			behind[h.Client] = append(behind[h.Client], w)
		}
	}
	todo := slices.Clone(waits)
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if ended[w] || !w.canEnd(remaining) {
			continue
		}
		ended[w] = true
		client := w.place.Client
		if remaining[client]--; remaining[client] == 0 {
			todo = append(todo, behind[client]...)
		}
	}
	return slices.DeleteFunc(slices.Clone(waits), func(w *wait) bool { return ended[w] })
}

// canEnd reports whether the clients that have no wait may end this one by unlocking.
func (w *wait) canEnd(remaining map[string]int) bool {
	free := func(h driver.Holder) bool { return remaining[h.Client] == 0 }
	if w.some {
		return slices.ContainsFunc(w.holders, free)
	}
	return !slices.ContainsFunc(w.holders, func(h driver.Holder) bool { return !free(h) })
}

// compareWaits orders the waits of one client.
func compareWaits(a, b Wait) int {
	return cmp.Or(cmp.Compare(a.Holder.Client, b.Holder.Client), cmp.Compare(a.Key, b.Key))
}

// look inspects the locks of the keys, and returns the held ones that have waiters.
func look(ctx context.Context, client *lock.Client, keys iter.Seq2[string, error]) (map[string]lock.Info, error) {
	found := make(map[string]lock.Info)
	for key, err := range keys {
		if err != nil {
			return nil, err
		}
		info, err := client.Inspect(ctx, key)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, lock.ErrWrongType): // List may show other data
		case err != nil:
			return nil, err
		case len(info.Holders) > 0 && len(info.Places) > 0:
			found[key] = info
		}
	}
	return found, nil
}
