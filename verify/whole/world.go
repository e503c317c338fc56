package whole

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/part"
)

// world is one schedule: a server, its clients, and what watches them.
type world struct {
	plan      plan
	staging   *staging // nil: the seed decides what becomes of messages
	start     time.Time
	traveling sync.WaitGroup // messages, lines, and checks that stand at a later instant
	procs     []*process

	mu        sync.Mutex // guards all below, the server, the lines, and what process says of it
	servers   []*server
	lines     []*line // that are open
	freeSince map[string]time.Time
	owners    map[string]*process
	tenures   map[tenureID]*tenure
	signals   map[string]int
	waiters   map[*waiter]struct{}
	brokenAt  time.Time // when something happened that leases need not survive
	ended     bool      // the workload is over
	diary     *part.Diary
	counts    *part.Counts // in the diary
}

// simulate plays a schedule. It must be called in a bubble.
func simulate(seed uint64, trace func(string)) part.Result {
	w := newWorld(newPlan(seed), trace)
	w.prepare()
	w.play()
	w.finish()
	return w.result()
}

func newWorld(p plan, trace func(string)) *world {
	diary := part.NewDiary(trace)
	return &world{
		plan: p, start: time.Now(), diary: diary, counts: diary.Counts,
		freeSince: map[string]time.Time{},
		owners:    map[string]*process{}, tenures: map[tenureID]*tenure{},
		signals: map[string]int{}, waiters: map[*waiter]struct{}{},
	}
}

func (w *world) result() part.Result { return w.diary.Result(classNames[w.plan.class]) }

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
	w.diary.Violated(check, format, args...)
}

// note adds to the trace. The caller holds mu.
func (w *world) note(format string, args ...any) { w.diary.Note(format, args...) }

// check counts that something was looked at. The caller holds mu.
func (w *world) check(name string) { w.diary.Check(name) }
