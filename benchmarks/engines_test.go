package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	antlabs "github.com/antlabs/timer"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}

// engines are the engines under test.
var engines = []struct {
	name string
	make func(b *testing.B) engine
}{
	{"wheel", func(b *testing.B) engine {
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
		return w
	}},
	{"heap", func(b *testing.B) engine {
		s, err := heapqueue.NewScheduler(nil)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}},
}

type noopTask struct{}

func (noopTask) Run(schedule.Timer) {}

// longDelay returns a delay that does not end during a benchmark. The other pending
// timers have such delays; shortDelay is shorter than all of them.
func longDelay(rng *rand.Rand) time.Duration {
	return time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
}

const shortDelay = time.Minute

// BenchmarkScheduleStop schedules a timer and stops it while others are pending.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{0, 100_000, 1_000_000} {
		for _, e := range engines {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, e.name), func(b *testing.B) {
				s := e.make(b)
				defer s.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				for range pending {
					if _, err := s.Schedule(longDelay(rng), noopTask{}); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				b.ReportAllocs()
				for b.Loop() {
					t, err := s.Schedule(shortDelay, noopTask{})
					if err != nil || !t.Stop() {
						b.Fatal("not stopped", err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("pending=%d/time.AfterFunc", pending), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			timers := make([]*time.Timer, pending)
			for i := range timers {
				timers[i] = time.AfterFunc(longDelay(rng), func() {})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !time.AfterFunc(shortDelay, func() {}).Stop() {
					b.Fatal("not stopped")
				}
			}
			b.StopTimer()
			for _, t := range timers {
				t.Stop()
			}
		})
	}
}

// BenchmarkReset moves a random timer of 1,000,000.
func BenchmarkReset(b *testing.B) {
	const pending = 1_000_000
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := e.make(b)
			defer s.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			timers := make([]schedule.Timer, pending)
			for i := range timers {
				timers[i], _ = s.Schedule(longDelay(rng), noopTask{})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !timers[rng.IntN(pending)].Reset(longDelay(rng)) {
					b.Fatal("not reset")
				}
			}
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		timers := make([]*time.Timer, pending)
		for i := range timers {
			timers[i] = time.AfterFunc(longDelay(rng), func() {})
		}
		runtime.GC()
		b.ReportAllocs()
		for b.Loop() {
			timers[rng.IntN(pending)].Reset(longDelay(rng))
		}
		b.StopTimer()
		for _, t := range timers {
			t.Stop()
		}
	})
}

// fireTask records how late it runs.
type fireTask struct {
	due   time.Time
	worst *atomic.Int64
	wg    *sync.WaitGroup
}

func (f *fireTask) Run(schedule.Timer) { f.fired() }

func (f *fireTask) fired() {
	late := int64(time.Since(f.due))
	for {
		worst := f.worst.Load()
		if late <= worst || f.worst.CompareAndSwap(worst, late) {
			break
		}
	}
	f.wg.Done()
}

// BenchmarkFire fires 200,000 timers that are due over a second. It reports the
// processor time of each and the worst lateness.
func BenchmarkFire(b *testing.B) {
	const timers = 200_000
	run := func(b *testing.B, scheduleTask func(d time.Duration, f *fireTask)) {
		var worst atomic.Int64
		tasks := make([]fireTask, timers)
		var cpu time.Duration
		for b.Loop() {
			var wg sync.WaitGroup
			wg.Add(timers)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range tasks {
				d := time.Second + time.Duration(rng.Int64N(int64(time.Second)))
				tasks[i] = fireTask{due: time.Now().Add(d), worst: &worst, wg: &wg}
				scheduleTask(d, &tasks[i])
			}
			before := processCPU()
			wg.Wait()
			cpu += processCPU() - before
		}
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/timers, "cpu-ns/fire")
		b.ReportMetric(float64(worst.Load())/1e6, "worst-ms")
		b.ReportMetric(0, "ns/op")
	}
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := e.make(b)
			defer s.Close()
			run(b, func(d time.Duration, f *fireTask) {
				if _, err := s.Schedule(d, f); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		run(b, func(d time.Duration, f *fireTask) { time.AfterFunc(d, f.fired) })
	})
}

// BenchmarkAfter asks for the channel of a timeout, beside one reading of the clock. The timeouts of
// earlier calls are pending.
func BenchmarkAfter(b *testing.B) {
	w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	peer := antlabs.NewTimer()
	go peer.Run()
	defer peer.Stop()
	base, work := time.Now(), make(chan int, 1)
	for _, x := range []struct {
		name string
		f    func()
	}{
		{"clock", func() { time.Since(base) }},
		{"wheel", func() { w.After(5 * time.Second) }},
		{"wheel/select", func() {
			work <- 1
			select {
			case <-work:
			case <-w.After(5 * time.Second):
			}
		}},
		{"time", func() { time.After(5 * time.Second) }},
		{"time/select", func() {
			work <- 1
			select {
			case <-work:
			case <-time.After(5 * time.Second):
			}
		}},
		{"antlabs", func() {
			over := make(chan struct{})
			peer.AfterFunc(5*time.Second, func() { close(over) })
		}},
	} {
		b.Run(x.name, func(b *testing.B) { measure(b, x.f) })
	}
}

// BenchmarkTimeoutContext makes a context with a timeout and cancels it, while 100,000 others are
// pending: without Done, with Done, with a child, and with Done below a context that can be cancelled.
func BenchmarkTimeoutContext(b *testing.B) {
	parent, end := context.WithCancel(context.Background())
	defer end()
	uses := []struct {
		name   string
		parent context.Context
		use    func(context.Context)
	}{
		{"plain", context.Background(), func(context.Context) {}},
		{"Done", context.Background(), func(ctx context.Context) { ctx.Done() }},
		{"child", context.Background(), func(ctx context.Context) {
			child, cancel := context.WithCancel(ctx)
			child.Done()
			cancel()
		}},
		{"parent", parent, func(ctx context.Context) { ctx.Done() }},
	}
	for _, x := range timeoutMakers(b) {
		const pending = 100_000
		cancels := make([]context.CancelFunc, pending)
		rng := rand.New(rand.NewPCG(1, 2))
		before := heapInUse()
		for i := range cancels {
			var ctx context.Context
			ctx, cancels[i] = x.with(context.Background(), longDelay(rng))
			ctx.Done()
		}
		b.Run(x.name+"/pending", func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(float64(heapInUse()-before)/pending, "B/context")
		})
		for _, u := range uses {
			b.Run(x.name+"/"+u.name, func(b *testing.B) {
				measure(b, func() {
					ctx, cancel := x.with(u.parent, shortDelay)
					u.use(ctx)
					cancel()
				})
			})
		}
		for _, cancel := range cancels {
			cancel()
		}
	}
}

type timeoutMaker struct {
	name string
	with func(context.Context, time.Duration) (context.Context, context.CancelFunc)
}

func timeoutMakers(b *testing.B) []timeoutMaker {
	peer := antlabs.NewTimer()
	go peer.Run()
	b.Cleanup(peer.Stop)
	all := []timeoutMaker{{"context", context.WithTimeout}, {"antlabs", func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		timer := peer.AfterFunc(d, cancel)
		return ctx, func() {
			timer.Stop()
			cancel()
		}
	}}}
	for _, e := range engines {
		s := e.make(b)
		b.Cleanup(func() { s.Close() })
		all = append(all, timeoutMaker{e.name, func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return schedule.WithTimeout(ctx, s, d)
		}})
	}
	return all
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the pools of the runtime held until the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// measure runs f. It reports the CPU time of the whole process, which other processes hardly change.
func measure(b *testing.B, f func()) {
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
