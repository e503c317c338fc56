package whole

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/part"
)

// story is a schedule that a test tells instead of a seed, for what few seeds meet: a
// world in which nothing happens that is not told. A TTL is a second and a place in a
// queue lasts as long, so it is polled for every third of a second. Messages take a
// millisecond each way. The oracles look at it as at all schedules.
type story struct {
	*world
	others *sync.WaitGroup // what goes on beside the telling
}

const storyTTL = time.Second

var usually = fate{out: time.Millisecond, back: time.Millisecond}

// tell plays a story in a bubble of its own.
func tell(t *testing.T, one told) part.Result {
	t.Helper()
	var trace func(string)
	if *traceFlag {
		trace = func(line string) { fmt.Println(line) }
	}
	p := plan{class: pauses, ttl: storyTTL, keys: 3, shared: []string{permitName}, rates: []float64{1}}
	for range one.processes {
		p.procs = append(p.procs, processPlan{
			heap: true, ttl: storyTTL, tick: time.Millisecond,
			renewal: renewal.Options{Align: storyTTL}, // of which half a period is left: what is due in it is one batch
		})
	}
	return part.Play(t, p.seed, trace, func(_ uint64, trace func(string)) part.Result {
		w := newWorld(p, trace)
		w.staging = &staging{
			fate:   func(*process, message) fate { return usually },
			signal: func() time.Duration { return usually.out },
		}
		w.prepare()
		others := new(sync.WaitGroup)
		one.tell(story{w, others})
		others.Wait()
		w.finish()
		return w.result()
	})
}

// passed is how long the story has lasted, and at sleeps until it has lasted so long.
func (s story) passed() time.Duration { return time.Since(s.start) }

func (s story) at(since time.Duration) { time.Sleep(since - s.passed()) }

// lock has a process take a lock. The oracles look at what it holds from then on. It
// returns nil if there is nothing.
func (s story) lock(ctx context.Context, process int, key string) *tenure {
	u := &user{process: s.procs[process]}
	held, err := u.locker(key).Lock(by(ctx, u))
	if err != nil {
		if ctx.Err() == nil {
			s.fail("story", "p%d cannot lock %s: %v", process, key, err)
		}
		return nil
	}
	return u.begin(held)
}

// unlock gives a lock back.
func (s story) unlock(t *tenure) {
	if t == nil {
		return
	}
	s.mu.Lock()
	t.unlocked = time.Now()
	s.mu.Unlock()
	err := t.handle().Unlock(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	t.gone = true
	if err != nil {
		s.violated("story", "p%d cannot unlock %s: %v", t.process.id, t.key, err)
	}
}
