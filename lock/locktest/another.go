// Cases with two stores on the same data, as in two processes.

package locktest

import (
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func needsAnother(c Config) bool { return c.Another != nil }

// sides returns two fixtures of one case, each with its own store on the same data.
func (f *fixture) sides() []*fixture {
	other := &fixture{T: f.T, Config: f.Config, store: f.Another(f.T, f.store), ctx: f.ctx, prefix: f.prefix, client: f.client + "b"}
	return []*fixture{f, other}
}

// otherProcesses has cases that fail if a store keeps shared state in the memory of a process.
var otherProcesses = []testCase{
	{name: "S1_a_lock_excludes_other_processes", run: func(f *fixture) {
		sides := f.sides()
		here, there := sides[0], sides[1]
		for _, mode := range f.allModes() {
			key := mode.String()
			a := here.acquire(here.any(mode, key))
			there.refused(there.against(mode, key))
			stranger := a
			stranger.Owner += "0"
			require.ErrorIs(f, there.store.Release(f.ctx, stranger), driver.ErrNotHeld, mode)
			here.release(a)
			b := there.acquire(there.any(mode, key))
			f.rises(a.Token, b.Token)
			here.refused(here.against(mode, key))
			there.release(b)
			f.rises(b.Token, here.acquire(here.any(mode, key)).Token)
		}
	}},
	{name: "S1_S3_many_in_two_processes", run: func(f *fixture) {
		const clients, rounds = 3, 12
		ex := NewExclusion()
		var wg sync.WaitGroup
		for _, side := range f.sides() {
			for range clients {
				wg.Go(func() { side.contendFor(ex, "k", rounds) })
			}
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.Equal(f, 2*clients*rounds, ex.Entered())
	}},
	{name: "waiters_of_several_processes_are_served_in_order", needs: needsOrder, run: func(f *fixture) {
		sides := f.sides()
		holder := f.acquire(f.request("k"))
		var calls []*waitCall
		for i := range 6 {
			calls = append(calls, sides[(i+1)%2].wait("k"))
		}
		for _, side := range sides {
			side.refused(side.request("k"))
		}
		for i, c := range calls {
			require.NoError(f, sides[i%2].store.Release(f.ctx, holder))
			next := c.get()
			f.rises(holder.Token, next.Token)
			f.pending(calls[i+1:]...)
			holder = next
		}
	}},
}
