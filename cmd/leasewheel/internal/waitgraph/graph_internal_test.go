package waitgraph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// waitFor returns the wait of a client for leases of other clients. The token of a lease is the
// number of the client.
func waitFor(client int, key string, some bool, holders ...int) *wait {
	w := &wait{key: key, place: driver.Place{Client: clientName(client)}, some: some}
	for _, h := range holders {
		w.holders = append(w.holders, driver.Holder{Client: clientName(h), Token: uint64(h)})
	}
	return w
}

func clientName(n int) string { return fmt.Sprintf("c%02d", n) }

// path returns the clients and keys of a cycle.
func path(c Cycle) string {
	var s strings.Builder
	for _, w := range c {
		s.WriteString(w.Waiter.Client + " " + w.Key + " ")
	}
	return s.String()
}

func paths(cycles []Cycle) []string {
	var all []string
	for _, c := range cycles {
		all = append(all, path(c))
	}
	return all
}

// randomWaits returns waits of up to 6 clients for up to 8 keys.
func randomWaits(rng *rand.Rand) []*wait {
	clients := 1 + rng.IntN(6)
	var waits []*wait
	for k := range 1 + rng.IntN(8) {
		holders := rng.Perm(clients)[:1+rng.IntN(min(clients, 3))]
		some := rng.IntN(2) == 0
		for _, c := range rng.Perm(clients)[:1+rng.IntN(min(clients, 2))] {
			waits = append(waits, waitFor(c, fmt.Sprint("k", k), some, holders...))
		}
	}
	return waits
}

// The results are those of definitions in plain code.
func TestRandomGraphs(t *testing.T) {
	counts := make(map[int]int)
	for seed := range uint64(1500) {
		waits := randomWaits(rand.New(rand.NewPCG(seed, 0)))
		left := blocked(waits)
		require.Equal(t, plainBlocked(waits), left, "seed %d", seed)
		cycles := newGraph(left).cycles()
		all := plainCycles(left)
		require.Subset(t, all, paths(cycles), "seed %d", seed)
		several, one := clientsIn(all)
		severalShown, oneShown := clientsIn(paths(cycles))
		require.Equal(t, several, severalShown, "seed %d: each client of a cycle is shown", seed)
		require.Equal(t, one, oneShown, "seed %d", seed)
		counts[min(len(cycles), 3)]++
	}
	for n := range 4 {
		assert.Greater(t, counts[n], 50, "graphs with %d cycles; all: %v", n, counts)
	}
}

// clientsIn returns the clients in cycles of several clients, and those in cycles of one.
func clientsIn(paths []string) (several, one map[string]bool) {
	several, one = map[string]bool{}, map[string]bool{}
	for _, p := range paths {
		words := strings.Fields(p)
		in := several
		if len(words) == 2 {
			in = one
		}
		for i := 0; i < len(words); i += 2 {
			in[words[i]] = true
		}
	}
	return several, one
}

// plainBlocked removes waits that can end until there are none.
func plainBlocked(waits []*wait) []*wait {
	left := slices.Clone(waits)
	for {
		stuck := func(h driver.Holder) bool {
			return slices.ContainsFunc(left, func(w *wait) bool { return w.place.Client == h.Client })
		}
		i := slices.IndexFunc(left, func(w *wait) bool {
			n := 0
			for _, h := range w.holders {
				if stuck(h) {
					n++
				}
			}
			return w.some && n < len(w.holders) || !w.some && n == 0
		})
		if i < 0 {
			return left
		}
		left = slices.Delete(left, i, i+1)
	}
}

// plainCycles tries all paths from each client through clients with higher names.
func plainCycles(waits []*wait) []string {
	var all []string
	var extend func(root, at, text string, seen []string)
	extend = func(root, at, text string, seen []string) {
		for _, w := range waits {
			if w.place.Client != at {
				continue
			}
			for _, h := range w.holders {
				text := text + at + " " + w.key + " "
				switch {
				case h.Client == root:
					all = append(all, text)
				case h.Client > root && !slices.Contains(seen, h.Client):
					extend(root, h.Client, text, append(slices.Clone(seen), h.Client))
				}
			}
		}
	}
	for c := range 10 {
		extend(clientName(c), clientName(c), "", []string{clientName(c)})
	}
	return all
}

// A long chain of waits that can end takes no longer than its length.
func TestALongChainEnds(t *testing.T) {
	const n = 20_000
	var waits []*wait
	for i := range n {
		waits = append(waits, &wait{key: fmt.Sprint(i), place: driver.Place{Client: fmt.Sprint(i)}, holders: []driver.Holder{{Client: fmt.Sprint(i + 1)}}})
	}
	assert.Empty(t, blocked(waits))
	waits[n-1].holders[0].Client = "0"
	assert.Len(t, newGraph(blocked(waits)).cycles(), 1)
}

func TestConfirmedWaits(t *testing.T) {
	before := []*wait{waitFor(1, "k", false, 2, 3), waitFor(1, "s", true, 2, 3), waitFor(4, "k", false, 2)}
	for _, c := range []struct {
		name  string
		after []*wait
		want  []*wait
	}{
		{"nothing has changed", before, before},
		{"nobody waits", nil, nil},
		{"another client waits", []*wait{waitFor(2, "k", false, 2)}, nil},
		{"the client waits for another key", []*wait{waitFor(4, "s", true, 2, 3)}, nil},
		{"a holder has left", []*wait{waitFor(1, "k", false, 3), waitFor(1, "s", true, 3)}, []*wait{waitFor(1, "k", false, 3), waitFor(1, "s", true, 3)}},
		{"a holder has come", []*wait{waitFor(1, "k", false, 3, 4), waitFor(1, "s", true, 3, 4)}, []*wait{waitFor(1, "k", false, 3)}},
		{"all holders have changed", []*wait{waitFor(1, "k", false, 5)}, nil},
	} {
		assert.Equal(t, c.want, confirmed(before, c.after), c.name)
	}
	later := waitFor(4, "k", false, 2)
	later.holders[0].Token = 7
	assert.Empty(t, confirmed(before, []*wait{later}), "the client holds another lease")
	later = waitFor(4, "k", false, 2)
	later.holders[0].Client = clientName(9)
	assert.Empty(t, confirmed(before, []*wait{later}), "the lease is of another client")
}

func TestWaitsOfALock(t *testing.T) {
	holders := func(n int) []driver.Holder { return make([]driver.Holder, n) }
	place := func(client string, mode driver.Mode) driver.Place {
		return driver.Place{Client: client, Mode: mode, Metadata: mode.String()}
	}
	waits := waitsOf(map[string]lock.Info{
		"b": {Held: 17, Holders: holders(16), Places: []driver.Place{place("x", driver.Permit)}}, // one holder is not known
		"c": {Held: 17, Holders: holders(16), Places: []driver.Place{place("x", driver.Write), place("y", driver.Read), place("x", driver.Read)}},
		"a": {Held: 16, Holders: holders(16), Places: []driver.Place{place("x", driver.Members)}},
	})
	require.Len(t, waits, 3)
	assert.Equal(t, &wait{"a", place("x", driver.Members), holders(16), true}, waits[0])
	assert.Equal(t, &wait{"c", place("x", driver.Write), holders(16), false}, waits[1], "the first place of the client")
	assert.Equal(t, &wait{"c", place("y", driver.Read), holders(16), false}, waits[2])
}
