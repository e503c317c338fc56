package heapqueue_test

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// BenchmarkScheduleStop schedules a timer of half an hour and stops it, while timers of
// one to two hours are pending. The three engines are in one benchmark, so that one run
// shows their ratio.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d/heapqueue", pending), func(b *testing.B) {
			s := newScheduler(b)
			for _, d := range hours(pending) {
				_, err := s.Schedule(d, nothing{})
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				timer, _ := s.Schedule(30*time.Minute, nothing{})
				timer.Stop()
			}
		})
		b.Run(fmt.Sprintf("pending=%d/AfterFunc", pending), func(b *testing.B) {
			for _, d := range hours(pending) {
				defer time.AfterFunc(d, func() {}).Stop()
			}
			b.ReportAllocs()
			for b.Loop() {
				time.AfterFunc(30*time.Minute, func() {}).Stop()
			}
		})
		b.Run(fmt.Sprintf("pending=%d/textbook", pending), func(b *testing.B) {
			var q textbook
			for _, d := range hours(pending) {
				q.schedule(d, nothing{})
			}
			b.ReportAllocs()
			for b.Loop() {
				q.stop(q.schedule(30*time.Minute, nothing{}))
			}
		})
	}
}

// BenchmarkReset resets random timers of 100,000 pending ones.
func BenchmarkReset(b *testing.B) {
	const pending = 100_000
	rng := rand.New(rand.NewPCG(1, 1))
	b.Run("heapqueue", func(b *testing.B) {
		s := newScheduler(b)
		var timers []schedule.Timer
		for _, d := range hours(pending) {
			timer, err := s.Schedule(d, nothing{})
			require.NoError(b, err)
			timers = append(timers, timer)
		}
		for b.Loop() {
			timers[rng.IntN(pending)].Reset(time.Hour + time.Duration(rng.Int64N(int64(time.Hour))))
		}
	})
	b.Run("AfterFunc", func(b *testing.B) {
		var timers []*time.Timer
		for _, d := range hours(pending) {
			timer := time.AfterFunc(d, func() {})
			defer timer.Stop()
			timers = append(timers, timer)
		}
		for b.Loop() {
			timers[rng.IntN(pending)].Reset(time.Hour + time.Duration(rng.Int64N(int64(time.Hour))))
		}
	})
}

// BenchmarkFire measures a timer from Schedule to the end of Run, in bursts of 10,000.
func BenchmarkFire(b *testing.B) {
	const burst = 10_000
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("heapqueue/workers=%d", workers), func(b *testing.B) {
			s, err := heapqueue.NewScheduler(&heapqueue.Options{Workers: workers})
			require.NoError(b, err)
			defer s.Close()
			var wg sync.WaitGroup
			done := doneTask{&wg}
			b.ReportAllocs()
			for b.Loop() {
				wg.Add(burst)
				for range burst {
					s.Schedule(0, done)
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/burst, "ns/timer")
		})
	}
	b.Run("AfterFunc", func(b *testing.B) {
		var wg sync.WaitGroup
		b.ReportAllocs()
		for b.Loop() {
			wg.Add(burst)
			for range burst {
				time.AfterFunc(0, wg.Done)
			}
			wg.Wait()
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/burst, "ns/timer")
	})
}

// BenchmarkPushPop pushes a value that is due and pops it.
func BenchmarkPushPop(b *testing.B) {
	var q heapqueue.Queue[int]
	ctx, at := context.Background(), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		q.Push(1, at)
		q.Pop(ctx)
	}
}

// BenchmarkMemory reports the memory of a pending timer, with a million timers pending.
func BenchmarkMemory(b *testing.B) {
	const pending = 1_000_000
	delays := hours(pending)
	report := func(b *testing.B, before uint64) {
		b.ReportMetric(float64(heapInUse()-before)/pending, "B/timer")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("heapqueue", func(b *testing.B) {
		for b.Loop() {
			before := heapInUse()
			s := newScheduler(b)
			for _, d := range delays {
				s.Schedule(d, nothing{})
			}
			report(b, before)
			s.Close()
		}
	})
	b.Run("AfterFunc", func(b *testing.B) {
		timers := make([]*time.Timer, pending)
		for b.Loop() {
			before := heapInUse()
			for i, d := range delays {
				timers[i] = time.AfterFunc(d, func() {})
			}
			report(b, before)
			for _, timer := range timers {
				timer.Stop()
			}
		}
	})
}

func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func newScheduler(b *testing.B) *heapqueue.Scheduler {
	b.Helper()
	s, err := heapqueue.NewScheduler(nil)
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

// hours returns n delays of one to two hours.
func hours(n int) []time.Duration {
	rng := rand.New(rand.NewPCG(1, 2))
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
	}
	return delays
}

type nothing struct{}

func (nothing) Run(schedule.Timer) {}

type doneTask struct{ wg *sync.WaitGroup }

func (d doneTask) Run(schedule.Timer) { d.wg.Done() }

// textbook is a container/heap with a mutex. Each item knows its index.
type textbook struct {
	mu    sync.Mutex // guards items
	items textbookHeap
}

type textbookItem struct {
	at    time.Time
	task  schedule.Task
	index int
}

func (q *textbook) schedule(d time.Duration, t schedule.Task) *textbookItem {
	item := &textbookItem{at: time.Now().Add(d), task: t}
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.items, item)
	return item
}

func (q *textbook) stop(item *textbookItem) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Remove(&q.items, item.index)
}

type textbookHeap []*textbookItem

func (h textbookHeap) Len() int           { return len(h) }
func (h textbookHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h textbookHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *textbookHeap) Push(x any) {
	item := x.(*textbookItem)
	item.index = len(*h)
	*h = append(*h, item)
}

func (h *textbookHeap) Pop() any {
	old := *h
	end := len(old) - 1
	item := old[end]
	old[end] = nil
	*h = old[:end]
	return item
}
