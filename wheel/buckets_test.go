package wheel

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// idTask is the task of a timer in the model: its number.
type idTask int

func (idTask) Run(schedule.Timer) {}

// lastTick is the greatest tick of a timer.
const lastTick = never - 1

// model drives buckets without a clock and compares them with a map of pending timers.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	b       buckets
	pending map[int]uint32 // slot of each pending timer
	due     map[int]int64  // tick of each timer
	next    int            // number of the next timer
}

func newModel(t *testing.T, seed uint64, level0Bits uint) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 5)), pending: map[int]uint32{}, due: map[int]int64{}}
	m.b.init(level0Bits)
	return m
}

// tick returns a random tick, which may be near, far, or at the end of the range.
func (m *model) tick() int64 {
	if m.rng.IntN(100) == 0 {
		return lastTick - m.rng.Int64N(1000)
	}
	return m.after(62)
}

// after returns a random tick less than 1<<span after clk.
func (m *model) after(span int) int64 {
	return m.b.clk + min(m.rng.Int64N(int64(1)<<m.rng.IntN(span)), lastTick-m.b.clk)
}

func (m *model) add() {
	tick := m.tick()
	m.b.forward(min(m.after(20), tick-1)) // the clock may be anywhere before the tick
	slot, n := m.b.alloc(idTask(m.next))
	m.b.add(slot, n, tick)
	m.pending[m.next], m.due[m.next] = slot, max(tick, m.b.clk+1)
	start := m.b.bucketExpiry(n.bucket)
	require.LessOrEqual(m.t, start, m.due[m.next], "the bucket is visited in time")
	require.LessOrEqual(m.t, m.b.nextExpiry, start)
	if n.bucket >= m.b.level0Len() {
		width := int64(1) << m.b.levelShift(int(n.bucket-m.b.level0Len())/levelLen)
		require.Greater(m.t, start-width, m.b.clk, "the window of the bucket is not open")
		require.LessOrEqual(m.t, m.b.nextCascade, start-width)
	}
	m.next++
}

// any returns a random pending timer.
func (m *model) any() (id int, slot uint32, ok bool) {
	for range 20 {
		id := m.rng.IntN(max(m.next, 1))
		if slot, ok := m.pending[id]; ok {
			return id, slot, true
		}
	}
	return 0, 0, false
}

func (m *model) stop() {
	if id, slot, ok := m.any(); ok {
		n := m.b.at(slot)
		timer := n.id(slot)
		m.b.cancel(slot, n)
		delete(m.pending, id)
		_, stopped := m.b.find(timer)
		require.Nil(m.t, stopped)
		require.Equal(m.t, len(m.pending), m.b.count())
	}
}

func (m *model) move() {
	if id, slot, ok := m.any(); ok {
		tick := m.tick()
		m.b.move(slot, m.b.at(slot), tick)
		m.due[id] = max(tick, m.b.clk+1)
	}
}

// cascade makes a step of a cascade at a random tick.
func (m *model) cascade() {
	tick := m.after(20)
	limit := 1 + m.rng.IntN(100)
	idle := m.rng.IntN(2) == 0
	looked := m.b.cascade(tick, limit, idle)
	require.LessOrEqual(m.t, looked, limit)
	if idle && looked == 0 && m.b.nextExpiry > tick {
		require.Greater(m.t, m.b.nextCascade, tick, "no window with nodes is open")
	}
	m.checkCounts()
}

// checkCounts checks the number of nodes in each coarse bucket.
func (m *model) checkCounts() {
	for i, count := range m.b.counts {
		nodes := 0
		if head := m.b.heads[int(m.b.level0Len())+i]; head != 0 {
			for slot := head; nodes == 0 || slot != head; slot = m.b.at(slot).next {
				nodes++
			}
		}
		if nodes != int(count) { // calling require for each bucket would take most of the test's time
			require.Failf(m.t, "wrong count", "%d nodes in coarse bucket %d, counted %d", nodes, i, count)
		}
	}
}

// advance runs all timers up to a tick, in steps of at most batch nodes.
func (m *model) advance(tick int64, batch int) {
	m.run(tick, batch)
	for id := range m.pending {
		if m.due[id] <= tick {
			require.Failf(m.t, "overdue", "timer %d of tick %d is pending at tick %d", id, m.due[id], tick)
		}
	}
	m.b.forward(tick)
}

// run is advance without the check of the timers that are still pending.
func (m *model) run(tick int64, batch int) {
	last := int64(-1)
	for {
		due, more := m.b.collectExpired(tick, make([]uint64, 0, batch))
		for _, timer := range due {
			slot, n := m.b.find(timer)
			id := int(n.task.(idTask))
			require.Equal(m.t, stateReady, n.bucket)
			require.Equal(m.t, slot, m.pending[id])
			require.Equal(m.t, m.due[id], n.tick)
			require.Equal(m.t, m.b.clk, n.tick, "timer %d of tick %d fires at tick %d", id, n.tick, m.b.clk)
			require.GreaterOrEqual(m.t, n.tick, last, "earlier ticks first")
			last = n.tick
			m.b.free(slot, n)
			delete(m.pending, id)
		}
		if !more {
			return
		}
	}
}

func TestBucketsMatchAMap(t *testing.T) {
	for _, fine := range []uint{6, 9, 12, 16} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%d buckets, seed %d", 1<<fine, seed), func(t *testing.T) {
				m := newModel(t, seed, fine)
				jump := 30 // log2 of the longest jump of the clock
				if seed%4 == 3 {
					jump = 58 // reaches the end of the range
				}
				for range 4000 {
					switch op := m.rng.IntN(12); {
					case op < 5:
						m.add()
					case op < 6:
						m.stop()
					case op < 8:
						m.move()
					case op < 10:
						m.cascade()
					default:
						m.advance(m.after(jump), 1+m.rng.IntN(16))
					}
				}
				m.advance(lastTick, 100)
				assert.Empty(t, m.pending)
				assert.Zero(t, m.b.live)
				assert.Equal(t, int64(never), m.b.nextExpiry)
			})
		}
	}
}

// A step looks at a bounded number of nodes, however many are in the bucket. The next step
// continues with the rest of the bucket.
func TestCollectExpiredIsBounded(t *testing.T) {
	m := newModel(t, 1, 6)
	for range 1000 {
		slot, n := m.b.alloc(idTask(m.next))
		m.b.add(slot, n, 100_000) // in a bucket of level 2
		m.pending[m.next], m.due[m.next] = slot, 100_000
		m.next++
	}
	fired, steps := 0, 0
	for {
		due, more := m.b.collectExpired(100_000, make([]uint64, 0, 10))
		require.LessOrEqual(t, len(due), 10)
		fired += len(due)
		if !more {
			break
		}
		steps++
	}
	assert.Equal(t, 1000, fired)
	assert.GreaterOrEqual(t, steps, 2*100, "each node is cascaded at least once and then collected")
}

// After idle time a timer is queued by its distance from the present tick. Otherwise a near
// timer would take the way through coarse buckets.
func TestForward(t *testing.T) {
	var b buckets
	b.init(6)
	b.forward(1_000_000)
	slot, n := b.alloc(idTask(0))
	b.add(slot, n, 1_000_010)
	assert.Less(t, n.bucket, uint32(64))
	b.forward(2_000_000)
	assert.EqualValues(t, 1_000_000, b.clk, "a due timer stops the clock")
}

// Four lists of equal length let the CPU load four nodes at a time.
func TestTheBucketsOfATickGrowEvenly(t *testing.T) {
	var b buckets
	b.init(6)
	for i := range 100 {
		slot, n := b.alloc(idTask(i))
		b.add(slot, n, 40)
	}
	var sizes [ways]int
	for way := range uint32(ways) {
		head := b.heads[b.level0Bucket(40, way)]
		for slot := head; sizes[way] == 0 || slot != head; slot = b.at(slot).next {
			sizes[way]++
		}
	}
	assert.Equal(t, [ways]int{25, 25, 25, 25}, sizes)
	due, _ := b.collectExpired(40, make([]uint64, 0, 200))
	require.Len(t, due, 100)
	for i := 1; i < len(due); i++ {
		assert.Greater(t, uint32(due[i]), uint32(due[i-1]), "in the order of their slots, which is that of add")
	}
}

// A tick of After is displaced only when it is over.
func TestTicksOfAfterHavePlacesOfTheirOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	placed := map[[2]uint64]int64{}
	for now := int64(1); now < 20_000; now++ {
		for range 20 {
			tick := roundTick(now, now+1+rng.Int64N(1<<(1+rng.IntN(16))))
			zeros := bits.TrailingZeros64(uint64(tick))
			place := [2]uint64{uint64(zeros), uint64(tick) >> (zeros + 1) % ringLen}
			last, ok := placed[place]
			require.True(t, !ok || last == tick || last <= now, "tick %d displaces %d at %d", tick, last, now)
			placed[place] = tick
		}
	}
	assert.Equal(t, int64(512), roundTick(0, 512))
	assert.Equal(t, int64(514), roundTick(0, 513))
	assert.Equal(t, int64(1<<62), roundTick(0, 1<<62-1))
}

func TestBucketsAreRoundedUpToAPowerOfTwo(t *testing.T) {
	for buckets, want := range map[int]uint{64: 6, 65: 7, 512: 9, 513: 10, 1 << 20: 20} {
		assert.Equal(t, want, newCore(&Options{Tick: defaultTick, Buckets: buckets}).level0Bits, "%d buckets", buckets)
	}
}

func TestANodeIs40Bytes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		assert.EqualValues(t, 40, unsafe.Sizeof(node{}))
	}
	assert.GreaterOrEqual(t, unsafe.Offsetof(shard{}.mu), uintptr(64), "the hints have a cache line of their own")
}

func TestAnEmptySlabReleasesItsMemory(t *testing.T) {
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
			s.free(slot, n)
		}
		assert.Len(t, s.chunks, 1)
		again := map[uint32]bool{}
		for range 2 * chunkLen { // handles stay stale when their slots are reused
			slot, _ := s.alloc(idTask(1))
			require.False(t, again[slot], "slot %d was allocated twice", slot)
			again[slot] = true
		}
		for _, timer := range timers {
			_, n := s.find(timer)
			require.Nil(t, n)
		}
	}
}

func TestTheSlabReusesSlots(t *testing.T) {
	var s slab
	s.alloc(idTask(0))
	for range 10 * chunkLen {
		slot, n := s.alloc(idTask(1))
		s.free(slot, n)
	}
	assert.Len(t, s.chunks, 1)
	assert.EqualValues(t, 2, s.used)
}

// The nodes of stopped timers stay in their buckets for a while. They do not count as
// pending and do not keep their tasks reachable. When all timers are stopped, their memory
// is released.
func TestStoppedTimersAreUnlinkedInGroups(t *testing.T) {
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
		require.Equal(t, len(timers)-i-1, b.count())
		most = max(most, len(b.zombies))
	}
	assert.Equal(t, maxZombies-1, most)
	assert.Empty(t, b.zombies)
	assert.Len(t, b.chunks, 1)
	b.updateExpiry()
	assert.Equal(t, int64(never), min(b.nextExpiry, b.nextCascade))
}

// The memory of stopped timers is released when the last other timer ends, by Stop or by
// Run. The next visit of a bucket may be far away.
func TestZombiesAreFreedWithTheLastTimer(t *testing.T) {
	for name, end := range map[string]func(b *buckets, slot uint32, n *node){
		"stopped while alone in its bucket": func(b *buckets, slot uint32, n *node) { b.cancel(slot, n) },
		"run": func(b *buckets, slot uint32, n *node) {
			b.unlink(slot, n)
			n.bucket = stateRunning
			b.free(slot, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b buckets
			b.init(6)
			var timers []uint64
			for i := range 2*chunkLen + maxZombies/2 {
				slot, n := b.alloc(idTask(i))
				b.add(slot, n, 40)
				timers = append(timers, n.id(slot))
			}
			last, n := b.alloc(idTask(-1))
			b.add(last, n, 41)
			for _, timer := range timers {
				slot, n := b.find(timer)
				b.cancel(slot, n)
			}
			require.NotEmpty(t, b.zombies)
			end(&b, last, n)
			assert.Zero(t, b.count())
			assert.Empty(t, b.zombies)
			assert.Zero(t, b.live)
			assert.Len(t, b.chunks, 1)
			b.updateExpiry()
			assert.Equal(t, int64(never), min(b.nextExpiry, b.nextCascade))
		})
	}
}

// updateExpiry computes nextExpiry and nextCascade from the buckets.
func (b *buckets) updateExpiry() {
	tick, _ := b.firstLevel0()
	b.firstCoarse(tick)
}
