// What the page shows.

package demo

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// feed measures the run for each visitor of the page. Without a visitor nothing is measured.
type feed struct {
	page *page

	mu       sync.Mutex    // guards all fields below
	marks    []mark        // the latest events of the watched lock
	losses   []lossGroup   // the latest losses
	columns  []column      // the latest columns
	last     renewal.Stats // at the latest column
	lastAt   time.Time
	renewals []float64 // when the latest confirmed requests for the watched lock were sent
}

const (
	frameInterval  = 100 * time.Millisecond
	columnInterval = 500 * time.Millisecond
	measureShare   = 100         // a frame takes at most this part of the time until the next one
	maxInterval    = time.Second // also if the process was stopped while it measured
	maxColumns     = 120
	maxMarks       = 40
	maxRenewals    = 12
	maxLosses      = 12
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
	Now        float64     `json:"now"`
	Held       int         `json:"held"`
	Lost       uint64      `json:"lost"`
	Goroutines int         `json:"goroutines"`
	Wheel      []level     `json:"wheel,omitempty"`
	Heap       *heapFrame  `json:"heap,omitempty"`
	Columns    []column    `json:"columns,omitempty"` // new ones
	Losses     []lossGroup `json:"losses"`
	Marks      []mark      `json:"marks"`
	Renewals   []float64   `json:"renewals"`           // of the watched lock: when the latest confirmed requests were sent
	End        float64     `json:"end"`                // the earliest end of the watched lock at the store
	Deadline   float64     `json:"deadline,omitempty"` // its holder's; absent if it is not held
	Active     string      `json:"active"`
	Episode    *episode    `json:"episode,omitempty"`
	Hello      *hello      `json:"hello,omitempty"`

	urgent <-chan struct{} // is closed when the next frame must not wait: a fault may be over before it would be due
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
	Levels [][]int `json:"levels"`
}

// measure returns a frame for a visitor whose last one was of the instant since, or the first one if since is 0.
func (f *feed) measure(since float64) frame {
	p := f.page
	stats := p.client.Stats().Renewal
	end, deadline := p.store.heldUntil(p.keyOf(0)), p.watched().Deadline()
	out := frame{Held: stats.Held, Lost: stats.Lost(), Goroutines: runtime.NumGoroutine(), End: unixMS(end)}
	if !deadline.IsZero() {
		out.Deadline = unixMS(deadline)
	}
	p.mu.Lock()
	out.Active, out.Episode, out.urgent = p.active, p.episode.copy(), p.began
	p.mu.Unlock()
	switch engine := p.engine.(type) {
	case *wheel.Wheel:
		out.Wheel = levels(seam.InspectWheel(engine))
	case *heapqueue.Scheduler:
		out.Heap = heapOf(seam.InspectHeap(engine))
	}
	if since == 0 {
		out.Hello = f.hello()
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now() // not before mu is locked, so that no visitor misses a column
	out.Now = unixMS(now)
	if sent := unixMS(end.Add(-p.ttl)); len(f.renewals) == 0 || f.renewals[len(f.renewals)-1] != sent {
		f.renewals = keep(f.renewals, maxRenewals, sent)
	}
	out.Renewals, out.Losses, out.Marks = slices.Clone(f.renewals), slices.Clone(f.losses), slices.Clone(f.marks)
	passed := now.Sub(f.lastAt)
	if passed >= columnInterval {
		if passed < 2*maxInterval { // there was a visitor all the time
			f.columns = keep(f.columns, maxColumns, columnSince(stats, f.last, now, passed))
		}
		f.last, f.lastAt = stats, now
	}
	for _, c := range f.columns {
		if c.At > since {
			out.Columns = append(out.Columns, c)
		}
	}
	return out
}

func (f *feed) hello() *hello {
	p := f.page
	h := &hello{
		Engine: p.config.engine, Leases: p.leases, TTL: float64(p.ttl.Milliseconds()), Store: p.store.Name,
		Processes: p.config.store != "", Steal: min(stolenKeys, p.leases), Unavailable: map[string]string{},
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
	f.marks = keep(f.marks, maxMarks, mark{what, unixMS(at), token})
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
	now := unixMS(at)
	if number == 0 {
		f.marks = keep(f.marks, maxMarks, mark{What: "told", At: now})
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
	out := &heapFrame{Timers: state.Timers, Levels: [][]int{}}
	for _, level := range state.Levels {
		ms := make([]int, len(level))
		for i, d := range level {
			ms[i] = int(d.Milliseconds())
		}
		out.Levels = append(out.Levels, ms)
	}
	return out
}
