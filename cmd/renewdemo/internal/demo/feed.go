// What the page shows: measuring it, and sending it to the visitors.

package demo

import (
	"context"
	"encoding/json"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// feed measures the run and sends frames to the visitors of the page. A frame is encoded once for all
// of them. While there is no visitor, nothing is measured.
type feed struct {
	page   *page
	urgent chan struct{} // has a value if the next frame must not wait

	mu       sync.Mutex // guards all fields below
	visitors map[*visitor]bool
	arrived  chan struct{} // has a value after the first visitor has come
	marks    []mark        // the latest events of the watched lock
	losses   []lossGroup   // the latest losses
	lostMore bool          // losses came after the latest frame
	columns  []column      // the latest columns
	sizes    [sizeBins]int // calls of Renew by the size of their batch
	sent     uint64        // marks that were added before, and so are in earlier frames
	added    uint64        // marks
	last     renewal.Stats // at the latest column
	lastAt   time.Time
	renewals []float64 // when the latest confirmed requests for the watched lock were sent
}

// visitor is a page that is open. It is dropped if it does not read.
type visitor struct {
	frames chan []byte // is closed when the visitor is dropped
}

const (
	frameInterval  = 100 * time.Millisecond
	columnInterval = 500 * time.Millisecond
	measureShare   = 100         // a frame takes at most this part of the time until the next one
	maxInterval    = time.Second // also if the process was stopped while it measured
	maxVisitors    = 50
	maxUnread      = 30 // frames
	maxColumns     = 120
	maxMarks       = 100
	maxRenewals    = 12
	maxLosses      = 50
	sizeBins       = 15 // 1, 2, 4 … 16,384 leases and more
	lateBins       = 36 // two per doubling, from 16 µs
	hands          = 64 // sectors of the first level that are drawn
)

// mark is an event of the watched lock.
type mark struct {
	What  string  `json:"what"`
	At    float64 `json:"at"`
	Token uint64  `json:"token,omitempty"`
}

// lossGroup is a number of losses with the same reason, which came together.
type lossGroup struct {
	At     float64 `json:"at"`
	Count  int     `json:"count"`
	Reason string  `json:"reason"`
	Cause  string  `json:"cause"`
	First  int     `json:"first"` // the number of a lock
	Left   float64 `json:"left"`  // how long the holder of that lock had to stop, in ms
}

// column is what happened since the column before.
type column struct {
	At    float64  `json:"at"`
	Rate  float64  `json:"rate"` // renewals per second
	Batch float64  `json:"batch"`
	P50   float64  `json:"p50"` // ms
	P99   float64  `json:"p99"`
	Late  [][2]int `json:"late"` // bins with counts
}

// frame is what is sent.
type frame struct {
	Now        float64       `json:"now"`
	Held       int           `json:"held"`
	InFlight   int           `json:"inFlight"`
	Renewed    uint64        `json:"renewed"`
	Lost       uint64        `json:"lost"`
	Goroutines int           `json:"goroutines"`
	Wheel      []level       `json:"wheel,omitempty"`
	Heap       *heapFrame    `json:"heap,omitempty"`
	Columns    []column      `json:"columns,omitempty"`
	Sizes      [sizeBins]int `json:"sizes"`
	Losses     []lossGroup   `json:"losses,omitempty"` // all that are kept, if there are new ones
	Marks      []mark        `json:"marks,omitempty"`
	Renewals   []float64     `json:"renewals"`           // of the watched lock: when the latest confirmed requests were sent
	End        float64       `json:"end"`                // the earliest end of the watched lock at the store
	Deadline   float64       `json:"deadline,omitempty"` // its holder's; absent if it is not held
	Active     string        `json:"active"`
	Episode    *episode      `json:"episode,omitempty"`
	Hello      *hello        `json:"hello,omitempty"`
}

// hello is in the first frame for a visitor.
type hello struct {
	Engine      string            `json:"engine"`
	Leases      int               `json:"leases"`
	TTL         float64           `json:"ttl"` // ms
	Store       string            `json:"store"`
	Processes   bool              `json:"processes"` // the rival is a process of its own
	Steal       int               `json:"steal"`
	Unavailable map[string]string `json:"unavailable"` // faults, and why
}

// level is a level of the wheel.
type level struct {
	Width  float64 `json:"width"` // of a bucket, in ms
	Hand   int     `json:"hand"`
	Timers []int   `json:"timers"`
}

// heapFrame is the upper part of the heap: the time until each entry is due, in ms.
type heapFrame struct {
	Timers int     `json:"timers"`
	Batch  int     `json:"batch"`
	Levels [][]int `json:"levels"`
}

func newFeed(p *page) *feed {
	return &feed{page: p, urgent: make(chan struct{}, 1), visitors: map[*visitor]bool{}, arrived: make(chan struct{}, 1)}
}

// join adds a visitor, or returns false if there are too many.
func (f *feed) join() (*visitor, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.visitors) >= maxVisitors {
		return nil, false
	}
	v := &visitor{make(chan []byte, maxUnread)}
	f.visitors[v] = true
	select {
	case f.arrived <- struct{}{}:
	default:
	}
	return v, true
}

// leave removes a visitor, unless that has been done.
func (f *feed) leave(v *visitor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(v)
}

// drop is called with mu held.
func (f *feed) drop(v *visitor) {
	if f.visitors[v] {
		delete(f.visitors, v)
		close(v.frames)
	}
}

// send queues a frame for each visitor. A visitor that has not read the earlier ones is dropped, and
// may come back.
func (f *feed) send(frame []byte) (visitors int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v := range f.visitors {
		select {
		case v.frames <- frame:
		default:
			f.drop(v)
		}
	}
	return len(f.visitors)
}

// run sends frames while there are visitors, until ctx ends.
func (f *feed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.arrived:
		}
		f.mu.Lock()
		f.last, f.lastAt = f.page.client.Stats().Renewal, time.Now() // what came before is no part of a column
		f.mu.Unlock()
		for {
			began := time.Now()
			text, err := json.Marshal(f.measure(began, false))
			if err != nil || f.send(text) == 0 {
				break
			}
			select {
			case <-time.After(min(max(frameInterval, measureShare*time.Since(began)), maxInterval)):
			case <-f.urgent:
			case <-ctx.Done():
				return
			}
		}
	}
}

// hurry lets the next frame be sent at once: a fault may be over before it would be due.
func (f *feed) hurry() {
	select {
	case f.urgent <- struct{}{}:
	default:
	}
}

// first returns the first frame for a visitor.
func (f *feed) first() ([]byte, error) { return json.Marshal(f.measure(time.Now(), true)) }

// measure returns a frame. The first frame of a visitor has what is kept, other frames what is new.
func (f *feed) measure(now time.Time, first bool) frame {
	p := f.page
	stats := p.client.Stats().Renewal
	end, deadline := p.store.heldUntil(p.keyOf(0)), p.watched().Deadline()
	out := frame{
		Now: unixMS(now), Held: stats.Held, InFlight: stats.InFlight, Renewed: stats.Renewed, Lost: stats.Lost(),
		Goroutines: runtime.NumGoroutine(), End: unixMS(end),
	}
	if !deadline.IsZero() {
		out.Deadline = unixMS(deadline)
	}
	p.mu.Lock()
	out.Active, out.Episode = p.active, p.episode.copy()
	p.mu.Unlock()
	switch engine := p.engine.(type) {
	case *wheel.Wheel:
		out.Wheel = levels(seam.InspectWheel(engine))
	case *heapqueue.Scheduler:
		out.Heap = heapOf(seam.InspectHeap(engine))
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if sent := unixMS(end.Add(-p.ttl)); len(f.renewals) == 0 || f.renewals[len(f.renewals)-1] != sent {
		f.renewals = keep(f.renewals, maxRenewals, sent)
	}
	out.Renewals, out.Sizes = append([]float64{}, f.renewals...), f.sizes
	if first || f.lostMore {
		out.Losses = append([]lossGroup{}, f.losses...)
	}
	if first {
		out.Hello = f.hello()
		out.Columns, out.Marks = append([]column{}, f.columns...), append([]mark{}, f.marks...)
		return out
	}
	if now.Sub(f.lastAt) >= columnInterval {
		c := columnSince(stats, f.last, now, now.Sub(f.lastAt))
		f.last, f.lastAt = stats, now
		f.columns = keep(f.columns, maxColumns, c)
		out.Columns = []column{c}
	}
	f.lostMore = false
	out.Marks = append([]mark{}, f.marks[len(f.marks)-int(min(f.added-f.sent, uint64(len(f.marks)))):]...)
	f.sent = f.added
	return out
}

func (f *feed) hello() *hello {
	p := f.page
	h := &hello{
		Engine: p.config.engine, Leases: p.leases, TTL: float64(p.ttl.Milliseconds()), Store: p.store.Name,
		Processes: p.config.store != "", Steal: p.steal, Unavailable: map[string]string{},
	}
	for _, fault := range []string{faultPause, faultKill, faultForget} {
		if why := p.unavailable(fault); why != "" {
			h.Unavailable[fault] = why
		}
	}
	return h
}

// mark records an event of the watched lock.
func (f *feed) mark(what string, at time.Time, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addMark(mark{what, unixMS(at), token})
}

// addMark is called with mu held.
func (f *feed) addMark(m mark) {
	f.marks = keep(f.marks, maxMarks, m)
	f.added++
}

// keep appends a value, and removes the first one if there are more than limit.
func keep[T any](list []T, limit int, value T) []T {
	list = append(list, value)
	if len(list) > limit {
		list = list[1:]
	}
	return list
}

// lost records a loss, in one group with those before if they came in the same interval of a frame.
func (f *feed) lost(number int, at time.Time, err *renewal.LostError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lostMore = true
	now := unixMS(at)
	if number == 0 {
		f.addMark(mark{What: "told", At: now})
	}
	group := lossGroup{now, 1, err.Reason.String(), err.Cause().String(), number, float64(err.Left.Microseconds()) / 1000}
	if n := len(f.losses) - 1; n >= 0 {
		last := &f.losses[n]
		if last.Reason == group.Reason && last.Cause == group.Cause && now-last.At < float64(frameInterval.Milliseconds()) {
			last.Count++
			return
		}
	}
	f.losses = keep(f.losses, maxLosses, group)
}

// batchDone is the hook for calls of Renew.
func (f *feed) batchDone(info renewal.BatchInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes[min(bits.Len(uint(max(info.Size, 1)))-1, sizeBins-1)]++
}

// columnSince returns what happened between two snapshots.
func columnSince(stats, last renewal.Stats, now time.Time, passed time.Duration) column {
	late := stats.Late.Since(last.Late)
	c := column{
		At:    unixMS(now),
		Rate:  math.Round(float64(stats.Renewed-last.Renewed) / passed.Seconds()),
		Batch: math.Round(float64(late.Count()) / float64(max(stats.Batches-last.Batches, 1))),
		P50:   float64(late.Quantile(0.5).Microseconds()) / 1000,
		P99:   float64(late.Quantile(0.99).Microseconds()) / 1000,
		Late:  [][2]int{},
	}
	for upper, n := range late.Buckets() {
		if n == 0 {
			continue
		}
		bin := min(max(int(math.Round(2*math.Log2(float64(upper)/float64(16*time.Microsecond)))), 0), lateBins-1)
		if i := len(c.Late) - 1; i >= 0 && c.Late[i][0] == bin {
			c.Late[i][1] += int(n)
			continue
		}
		c.Late = append(c.Late, [2]int{bin, int(n)})
	}
	return c
}

// levels returns the levels of a wheel for a frame, the first one in hands sectors.
func levels(state seam.WheelState) []level {
	out := make([]level, len(state.Levels))
	for i, l := range state.Levels {
		merge := 1
		if i == 0 {
			merge = max(len(l.Timers)/hands, 1)
		}
		timers := make([]int, len(l.Timers)/merge)
		for bucket, n := range l.Timers {
			timers[bucket/merge] += n
		}
		width := time.Duration(min(float64(l.Width)*float64(merge), math.MaxInt64))
		out[i] = level{float64(width.Microseconds()) / 1000, l.Hand / merge, timers}
	}
	return out
}

// heapOf returns the upper part of a heap for a frame.
func heapOf(state seam.HeapState) *heapFrame {
	out := &heapFrame{Timers: state.Timers, Batch: state.Batch, Levels: [][]int{}}
	for _, level := range state.Levels {
		ms := make([]int, len(level))
		for i, d := range level {
			ms[i] = int(d.Milliseconds())
		}
		out.Levels = append(out.Levels, ms)
	}
	return out
}
