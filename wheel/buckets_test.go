package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// idTask is a task that tells which timer of the model it is.
type idTask int

func (idTask) Run(schedule.Timer) {}

// passive drives buckets by hand and holds them against a map of what is pending.
type passive struct {
	t       *testing.T
	rng     *rand.Rand
	b       buckets
	pending map[int]uint32 // id → slot
	due     map[int]int64  // id → tick
	next    int
}

func newPassive(t *testing.T, seed uint64, fine uint) *passive {
	p := &passive{t: t, rng: rand.New(rand.NewPCG(seed, 5)), pending: map[int]uint32{}, due: map[int]int64{}}
	p.b.init(fine)
	return p
}

// tick draws one: near, far, or at the end of time.
func (p *passive) tick() int64 {
	span := int64(1) << p.rng.IntN(62)
	if p.rng.IntN(100) == 0 {
		return math.MaxInt64 / 1000
	}
	return min(p.b.cur+p.rng.Int64N(span), math.MaxInt64/1000)
}

func (p *passive) add() {
	tick := p.tick()
	p.b.catchUp(min(p.b.cur+p.rng.Int64N(int64(1)<<p.rng.IntN(20)), tick-1)) // as far as time has gone by now
	slot, n := p.b.alloc(idTask(p.next))
	p.b.add(slot, n, tick)
	p.pending[p.next], p.due[p.next] = slot, max(tick, p.b.cur+1)
	require.LessOrEqual(p.t, p.b.visitOf(n.list), p.due[p.next], "looked at in time")
	require.LessOrEqual(p.t, p.b.next, p.b.visitOf(n.list))
	p.next++
}

func (p *passive) any() (id int, slot uint32, ok bool) {
	for range 20 {
		id := p.rng.IntN(max(p.next, 1))
		if slot, ok := p.pending[id]; ok {
			return id, slot, true
		}
	}
	return 0, 0, false
}

func (p *passive) remove() {
	if id, slot, ok := p.any(); ok {
		n := p.b.at(slot)
		timer := n.id(slot)
		p.b.cancel(slot, n)
		delete(p.pending, id)
		_, gone := p.b.find(timer)
		require.Nil(p.t, gone)
		require.Equal(p.t, len(p.pending), p.b.pending())
	}
}

func (p *passive) move() {
	if id, slot, ok := p.any(); ok {
		tick := p.tick()
		p.b.move(slot, p.b.at(slot), tick)
		p.due[id] = max(tick, p.b.cur+1)
	}
}

// advance lets time go to a tick, in steps of at most batch nodes.
func (p *passive) advance(tick int64, batch int) {
	last := int64(-1)
	for {
		due, more := p.b.step(tick, make([]uint64, 0, batch))
		for _, timer := range due {
			slot, n := p.b.find(timer)
			id := int(n.task.(idTask))
			require.Equal(p.t, stateReady, n.list)
			require.Equal(p.t, slot, p.pending[id])
			require.Equal(p.t, p.due[id], n.tick)
			require.Equal(p.t, p.b.cur, n.tick, "timer %d of tick %d fires at tick %d", id, n.tick, p.b.cur)
			require.GreaterOrEqual(p.t, n.tick, last, "earlier ticks first")
			last = n.tick
			p.b.release(slot, n)
			delete(p.pending, id)
		}
		if !more {
			break
		}
	}
	for id := range p.pending {
		if p.due[id] <= tick {
			require.Failf(p.t, "overdue", "timer %d of tick %d at %d", id, p.due[id], tick)
		}
	}
	p.b.catchUp(tick)
}

func TestBucketsMatchAMap(t *testing.T) {
	for _, fine := range []uint{6, 9, 12, 16} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("%d buckets, seed %d", 1<<fine, seed), func(t *testing.T) {
				p := newPassive(t, seed, fine)
				for range 4000 {
					switch op := p.rng.IntN(10); {
					case op < 5:
						p.add()
					case op < 6:
						p.remove()
					case op < 8:
						p.move()
					default:
						p.advance(min(p.b.cur+p.rng.Int64N(int64(1)<<p.rng.IntN(30)), math.MaxInt64/1000), 1+p.rng.IntN(16))
					}
				}
				p.advance(math.MaxInt64-1, 100)
				assert.Empty(t, p.pending)
				assert.Zero(t, p.b.live)
				assert.Equal(t, int64(never), p.b.next)
			})
		}
	}
}

// A step is bounded, whatever a bucket holds, and the rest of a half emptied
// bucket is not passed over.
func TestAStepIsBounded(t *testing.T) {
	p := newPassive(t, 1, 6)
	for range 1000 {
		slot, n := p.b.alloc(idTask(p.next))
		p.b.add(slot, n, 100_000) // a coarse bucket, then finer ones
		p.pending[p.next], p.due[p.next] = slot, 100_000
		p.next++
	}
	fired, steps := 0, 0
	for {
		due, more := p.b.step(100_000, make([]uint64, 0, 10))
		require.LessOrEqual(t, len(due), 10)
		fired += len(due)
		if !more {
			break
		}
		steps++
	}
	assert.Equal(t, 1000, fired)
	assert.GreaterOrEqual(t, steps, 2*100, "moved down at least once, then fired")
}

// A wheel that was idle files by the distance from now, not from when it was last
// at work: the timer would come by way of coarse buckets.
func TestCatchUp(t *testing.T) {
	var b buckets
	b.init(6)
	b.catchUp(1_000_000)
	slot, n := b.alloc(idTask(0))
	b.add(slot, n, 1_000_010)
	assert.Less(t, n.list, uint32(64))
	b.catchUp(2_000_000)
	assert.EqualValues(t, 1_000_000, b.cur, "not past a timer that is due")
}

func TestTimersOfOneTickKeepTheirOrder(t *testing.T) {
	var b buckets
	b.init(6)
	for i := range 100 {
		slot, n := b.alloc(idTask(i))
		b.add(slot, n, 40)
	}
	due, _ := b.step(40, make([]uint64, 0, 200))
	for i, timer := range due {
		_, n := b.find(timer)
		assert.Equal(t, idTask(i), n.task)
	}
}

func TestBucketsAreRoundedUpToAPowerOfTwo(t *testing.T) {
	for buckets, fine := range map[int]uint{64: 6, 65: 7, 512: 9, 513: 10, 1 << 20: 20} {
		assert.Equal(t, fine, newCore(&Options{Tick: defaultTick, Buckets: buckets}).fine, "%d buckets", buckets)
	}
}

func TestANodeIs40Bytes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		assert.EqualValues(t, 40, unsafe.Sizeof(node{}))
	}
	assert.GreaterOrEqual(t, unsafe.Offsetof(shard{}.mu), uintptr(64), "hint has a cache line of its own")
}

func TestTheSlabGivesItsMemoryBack(t *testing.T) {
	for _, chunks := range []int{2, 10} {
		var s slab
		var timers []uint64
		for range (chunks-1)*chunkLen + 1 {
			slot, n := s.alloc(idTask(0))
			timers = append(timers, n.id(slot))
		}
		require.Len(t, s.chunks, chunks)
		for _, timer := range timers {
			slot, n := s.find(timer)
			s.release(slot, n)
		}
		assert.Len(t, s.chunks, 1)
		again := map[uint32]bool{}
		for range 2 * chunkLen { // stale handles stay stale when slots are used again
			slot, _ := s.alloc(idTask(1))
			require.False(t, again[slot], "a slot has one timer")
			again[slot] = true
		}
		for _, timer := range timers {
			_, n := s.find(timer)
			require.Nil(t, n)
		}
	}
}

// A slot that was given back is handed out again while others are in use.
func TestTheSlabUsesSlotsAgain(t *testing.T) {
	var s slab
	s.alloc(idTask(0))
	for range 10 * chunkLen {
		slot, n := s.alloc(idTask(1))
		s.release(slot, n)
	}
	assert.Len(t, s.chunks, 1)
	assert.EqualValues(t, 2, s.used)
}

// Stopped timers stay in their lists for a while, but neither count nor keep their
// tasks, or memory once all are stopped.
func TestStoppedTimersAreUnlinkedTogether(t *testing.T) {
	var b buckets
	b.init(6)
	var timers []uint64
	for i := range 5*chunkLen + 10 {
		slot, n := b.alloc(idTask(i))
		b.add(slot, n, 40)
		timers = append(timers, n.id(slot))
	}
	most := 0
	for i, timer := range timers {
		slot, n := b.find(timer)
		b.cancel(slot, n)
		require.Nil(t, n.task)
		require.Equal(t, len(timers)-i-1, b.pending())
		most = max(most, len(b.dead))
	}
	assert.Equal(t, maxDead-1, most)
	assert.Empty(t, b.dead)
	assert.Len(t, b.chunks, 1)
	tick, _ := b.first()
	assert.Equal(t, int64(never), tick)
}

func TestAReleasedNodeKeepsNothingAlive(t *testing.T) {
	var s slab
	slot, n := s.alloc(idTask(0))
	s.release(slot, n)
	assert.Nil(t, n.task)
}

type funcTask func()

func (funcTask) Run(schedule.Timer) {}

type pointerTask struct{ first byte }

func (*pointerTask) Run(schedule.Timer) {}

type emptyTask struct{}

func (emptyTask) Run(schedule.Timer) {}

func TestTouchReadsWhateverATaskIs(t *testing.T) {
	assert.EqualValues(t, 7, touch(&pointerTask{first: 7}))
	assert.Zero(t, touch((*pointerTask)(nil)), "a nil pointer may be a task, too")
	for _, task := range []schedule.Task{funcTask(nil), funcTask(func() {}), emptyTask{}, &emptyTask{}, idTask(1 << 30)} {
		assert.NotPanics(t, func() { touch(task) })
	}
}
