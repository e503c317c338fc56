package whole

import (
	"fmt"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/part"
)

// world is one schedule: a server, its clients, and what watches them.
type world struct {
	plan      plan
	start     time.Time
	traveling sync.WaitGroup // messages, lines, and checks that stand at a later instant
	procs     []*process

	mu         sync.Mutex // guards all below, the server, the lines, and what process says of it
	servers    []*server
	lines      []*line // that are open
	freeSince  map[string]time.Time
	owners     map[string]*process
	tenures    map[tenureID]*tenure
	signals    map[string]int
	waiters    map[*waiter]struct{}
	brokenAt   time.Time // when something happened that leases need not survive
	ended      bool      // the workload is over
	counts     *part.Counts
	violations []string
	trace      func(string) // may be nil
	digest     uint64       // of all events, whatever their order within an instant
}

// Result is what a schedule did.
type Result struct {
	Counts     *part.Counts
	Violations []string
	Digest     uint64
}

const mostViolations = 8

// simulate plays a schedule. It must be called in a bubble.
func simulate(seed uint64, trace func(string)) Result {
	w := &world{
		plan: newPlan(seed), start: time.Now(), trace: trace, counts: part.NewCounts(),
		freeSince: map[string]time.Time{},
		owners:    map[string]*process{}, tenures: map[tenureID]*tenure{},
		signals: map[string]int{}, waiters: map[*waiter]struct{}{},
	}
	w.prepare()
	w.play()
	w.finish()
	w.counts.Schedules = 1
	w.counts.Classes[classNames[w.plan.class]]++
	w.counts.Simulated = time.Since(w.start)
	w.counts.Violations = len(w.violations)
	return Result{w.counts, w.violations, w.digest}
}

func (w *world) prepare() {
	for id, rate := range w.plan.rates {
		s, err := newServer(id, w.start, rate)
		if err != nil {
			w.fail("start", "%v", err)
			return
		}
		w.servers = append(w.servers, s)
	}
	for _, key := range w.plan.names() {
		w.freeSince[key] = w.start
	}
	for id, plan := range w.plan.procs {
		p, err := newProcess(w, id, plan)
		if err != nil {
			w.fail("start", "%v", err)
			return
		}
		w.procs = append(w.procs, p)
	}
}

// play runs the users and what happens to them until the schedule is over.
func (w *world) play() {
	var users sync.WaitGroup
	for _, p := range w.procs {
		for n := range p.plan.users {
			u := &user{process: p, id: n, dice: chance.New(w.plan.seed, 5, uint64(p.id), uint64(n))}
			users.Go(u.run)
		}
	}
	var fates sync.WaitGroup
	fates.Go(w.happenings)
	fates.Go(w.probing)
	users.Wait()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	fates.Wait()
}

func (w *world) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended || time.Since(w.start) >= w.plan.length
}

// after has something done later.
func (w *world) after(d time.Duration, f func()) {
	w.traveling.Go(func() {
		time.Sleep(d)
		f()
	})
}

func (w *world) count(of map[string]int, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of[name]++
}

// fail reports a violation. The caller does not hold mu.
func (w *world) fail(check, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated(check, format, args...)
}

// violated is fail for those who hold mu.
func (w *world) violated(check, format string, args ...any) {
	text := fmt.Sprintf("%v: %s: %s", time.Since(w.start), check, fmt.Sprintf(format, args...))
	w.note("VIOLATION %s", text)
	if len(w.violations) < mostViolations {
		w.violations = append(w.violations, text)
	}
}

// note adds to the trace. The caller holds mu.
func (w *world) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at := time.Since(w.start)
	w.digest += chance.Mix(uint64(at), chance.Digest(text))
	if w.trace != nil {
		w.trace(fmt.Sprintf("%-14v %s", at, text))
	}
}

// check counts that something was looked at. The caller holds mu.
func (w *world) check(name string) { w.counts.Checks[name]++ }
