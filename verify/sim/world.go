package sim

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/part"
)

// world is one schedule: a server, its clients, and what watches them.
type world struct {
	plan      plan
	start     time.Time
	traveling sync.WaitGroup // messages, and checks that stand at a later instant
	procs     []*process

	mu                  sync.Mutex // guards all below, the server and what process says of it
	server              *server
	downUntil           time.Time
	owners              map[string]*process
	tenures             map[tenureID]*tenure
	last                map[string]uint64 // key → the token granted last
	signals             map[string]int
	moved               time.Duration // the wall clock of the clients, by now
	brokenAt            time.Time     // when something happened that leases need not survive
	movedAt             time.Time     // when it was moved last
	backAt, suspendedAt time.Time
	hidingAt            time.Time // when it was set back last, or the host suspended
	ended               bool      // the workload is over
	diary               *part.Diary
	counts              *part.Counts // in the diary
}

// simulate plays a schedule. It must be called in a bubble.
func simulate(seed uint64, trace func(string)) part.Result {
	diary := part.NewDiary(trace)
	w := &world{
		plan: newPlan(seed), start: time.Now(), diary: diary, counts: diary.Counts,
		owners: map[string]*process{}, tenures: map[tenureID]*tenure{},
		last: map[string]uint64{}, signals: map[string]int{},
	}
	w.server = newServer(w.start, w.plan.rate)
	w.server.grants, w.server.kept, w.server.signal = w.granted, w.kept, w.signalled
	for id, plan := range w.plan.procs {
		p, err := newProcess(w, id, plan)
		if err != nil {
			w.fail("start", "%v", err)
			break
		}
		w.procs = append(w.procs, p)
	}
	w.play()
	w.finish()
	w.moveWall(-w.moved)
	return w.diary.Result(classNames[w.plan.class])
}

// play runs the users and what happens to them until the schedule is over.
func (w *world) play() {
	var users sync.WaitGroup
	for _, p := range w.procs {
		for n := range p.plan.users {
			u := &user{process: p, id: n, dice: chance.New(w.plan.seed, 5, uint64(p.id), uint64(n)), aside: chance.New(w.plan.seed, 10, uint64(p.id), uint64(n))}
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

// execute lets the server do one step.
func (w *world) execute(p *process, m message, step func() any) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := step()
	w.note("p%d %s %s #%d: %v", p.id, m.op, serial(m.owner), m.nth, answer)
	return answer
}

// signalled sends a signal to the process of an owner. The caller holds mu.
func (w *world) signalled(owner string, token uint64) {
	p := w.owners[owner]
	w.signals[owner]++
	d := chance.New(w.plan.seed, 6, uint64(p.id), chance.Digest(serial(owner)), uint64(w.signals[owner]))
	delay := d.Between(50*time.Microsecond, 5*time.Millisecond)
	cut := time.Now().Before(p.cutFrom)
	switch lossy := !w.plan.lossless(); {
	case cut || lossy && d.Chance(100):
		w.counts.Faults["lost signal"]++
		return
	case lossy && d.Chance(100):
		w.counts.Faults["late signal"]++
		delay = d.UpTo(2 * w.plan.ttl)
	}
	w.after(delay, func() {
		p.gate.Pass(chance.Digest(serial(owner)))
		p.store.hear(owner, token)
	})
}

// after has something done later.
func (w *world) after(d time.Duration, f func()) {
	w.traveling.Go(func() {
		time.Sleep(d)
		f()
	})
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.downUntil)
}

func (w *world) count(of map[string]int, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of[name]++
}

// moveWall steps the wall clock of all clients.
func (w *world) moveWall(d time.Duration) {
	w.moved += d
	w.movedAt = time.Now()
	seam.StepWall(d)
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

// sending counts a request, and notes what will become of it.
func (w *world) sending(p *process, m message, batch int, f fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Operations[m.op]++
	switch {
	case f.refused:
		w.note("p%d sends %s %s #%d of %d, refused", p.id, m.op, serial(m.owner), m.nth, batch)
	case f.fails():
		w.note("p%d sends %s %s #%d of %d, lost (request %v, known %v)", p.id, m.op, serial(m.owner), m.nth, batch, f.lostRequest, f.reset)
	}
}

// note adds to the trace. The caller holds mu.
func (w *world) note(format string, args ...any) { w.diary.Note(format, args...) }

// check counts that something was looked at. The caller holds mu.
func (w *world) check(name string) { w.diary.Check(name) }
