package heapqueue_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
)

// queueModel applies each operation to a Queue and to a slice, and compares them.
type queueModel struct {
	t     *testing.T
	rng   *rand.Rand
	queue heapqueue.Queue[int]
	items []modelItem
	gone  []heapqueue.Handle[int]
	next  int // the next value
	seq   int
}

type modelItem struct {
	heapqueue.Item[int]
	seq int // of the last Push or Move
}

func TestQueueEqualsASortedSlice(t *testing.T) {
	for name, priorities := range map[string]int{"priorities": 3, "one priority": 0} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				synctest.Test(t, func(t *testing.T) {
					m := &queueModel{t: t, rng: rand.New(rand.NewPCG(seed, 7))}
					for range 5_000 {
						m.step(priorities)
					}
					m.compare(m.queue.Close(), "Close")
					require.Zero(t, m.queue.Len())
				})
			}
		})
	}
}

// step does one random operation. The probability of Clear is such that the queue grows to
// a few hundred values.
func (m *queueModel) step(priorities int) {
	priority := 0
	if priorities > 0 && m.rng.IntN(2) == 0 { // phases without priorities follow a Clear
		priority = m.rng.IntN(2*priorities+1) - priorities
	}
	switch op := m.rng.IntN(1000); {
	case op < 400:
		at := m.instant()
		handle, err := m.queue.PushPriority(m.next, at, priority)
		require.NoError(m.t, err)
		m.seq++
		m.items = append(m.items, modelItem{heapqueue.Item[int]{Value: m.next, At: at, Priority: priority, Handle: handle}, m.seq})
		m.next++
	case op < 500:
		m.pop()
	case op < 600:
		if i, ok := m.pick(); ok {
			at := m.instant()
			require.True(m.t, m.queue.Move(m.items[i].Handle, at))
			m.seq++
			m.items[i].At, m.items[i].seq = at, m.seq
		}
	case op < 700:
		if i, ok := m.pick(); ok {
			require.True(m.t, m.queue.SetPriority(m.items[i].Handle, priority))
			m.items[i].Priority = priority
		}
	case op < 800:
		if i, ok := m.pick(); ok {
			require.True(m.t, m.queue.Remove(m.items[i].Handle))
			m.drop(i)
		}
	case op < 900:
		time.Sleep(time.Duration(m.rng.IntN(3)))
	case op < 960:
		m.peek()
	case op < 980:
		m.list()
	case op < 997:
		m.popDue()
	default:
		m.compare(m.queue.Clear(), "Clear")
	}
	require.Equal(m.t, len(m.items), m.queue.Len())
	if len(m.gone) > 0 {
		handle := m.gone[m.rng.IntN(len(m.gone))]
		require.False(m.t, m.queue.Remove(handle) || m.queue.Move(handle, time.Now()) || m.queue.SetPriority(handle, 1))
	}
}

// sort sorts the items in the order of All and returns the number of due ones.
func (m *queueModel) sort() (due int) {
	now := time.Now()
	slices.SortFunc(m.items, func(a, b modelItem) int {
		dueA, dueB := !a.At.After(now), !b.At.After(now)
		byPriority, byInstant := cmp.Compare(b.Priority, a.Priority), a.At.Compare(b.At)
		switch {
		case dueA && dueB:
			return cmp.Or(byPriority, byInstant, cmp.Compare(a.seq, b.seq))
		case dueA || dueB:
			return byInstant
		}
		return cmp.Or(byInstant, byPriority, cmp.Compare(a.seq, b.seq))
	})
	for due < len(m.items) && !m.items[due].At.After(now) {
		due++
	}
	return due
}

func (m *queueModel) pop() {
	due := m.sort()
	item, ok := m.queue.TryPop()
	require.Equal(m.t, due > 0, ok)
	if ok {
		m.equal(m.items[0], item, "TryPop")
		m.drop(0)
	}
}

func (m *queueModel) popDue() {
	due := m.sort()
	items := m.queue.PopDue()
	require.Len(m.t, items, due)
	for _, item := range items {
		m.equal(m.items[0], item, "PopDue")
		m.drop(0)
	}
}

func (m *queueModel) peek() {
	due := m.sort()
	item, ok := m.queue.Peek()
	require.Equal(m.t, len(m.items) > 0, ok)
	if !ok {
		return
	}
	first := 0
	if due == 0 { // Peek may return any value of the earliest instant
		first = slices.IndexFunc(m.items, func(i modelItem) bool { return i.Handle == item.Handle })
		require.GreaterOrEqual(m.t, first, 0)
		require.True(m.t, m.items[0].At.Equal(m.items[first].At))
	}
	m.equal(m.items[first], item, "Peek")
}

func (m *queueModel) list() {
	m.sort()
	i := 0
	for item := range m.queue.All() {
		m.equal(m.items[i], item, "All")
		i++
	}
	require.Len(m.t, m.items, i)
}

// compare compares items, which have left the queue, with all items of the model.
func (m *queueModel) compare(items []heapqueue.Item[int], what string) {
	m.sort()
	require.Len(m.t, items, len(m.items), what)
	for i, item := range items {
		m.equal(m.items[i], item, what)
		m.gone = append(m.gone, item.Handle)
	}
	m.items = nil
}

func (m *queueModel) equal(want modelItem, got heapqueue.Item[int], what string) {
	if !want.At.Equal(got.At) {
		require.FailNow(m.t, what+" returns another instant")
	}
	got.At = want.At
	if got != want.Item {
		require.Equal(m.t, want.Item, got, what)
	}
}

func (m *queueModel) drop(i int) {
	m.gone = append(m.gone, m.items[i].Handle)
	m.items = slices.Delete(m.items, i, i+1)
}

func (m *queueModel) pick() (int, bool) {
	if len(m.items) == 0 {
		return 0, false
	}
	return m.rng.IntN(len(m.items)), true
}

// instant returns one of few instants, in the past or the future.
func (m *queueModel) instant() time.Time {
	return time.Now().Add(time.Duration(m.rng.IntN(100) - 30))
}
