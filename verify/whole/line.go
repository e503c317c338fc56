package whole

import (
	"bufio"
	"net"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// line is a connection between a client and the server: what one end writes travels
// for some time, in order, before the other reads it.
type line struct {
	*link
	id       int
	restarts int         // of the server, before it was made
	ear      bool        // it is made to hear signals
	far      net.Conn    // the server's end
	down     chan parcel // to the client

	// The world's mu guards what follows.
	open     bool
	stalled  bool // nothing gets through any more, and nobody is told
	arrives  time.Time
	returns  time.Time
	channels []string // that it is subscribed to
}

// parcel is bytes on the way to a client.
type parcel struct {
	at   time.Time
	text []byte
	last bool // the connection breaks behind it
	gate bool // it waits until the process runs, as the client's end does not
}

// listen reads what the client sends until it closes its end, or the line breaks.
func (l *line) listen() {
	w := l.process.world
	r := bufio.NewReader(l.far)
	for {
		args, err := readCommand(r)
		if err != nil {
			w.mu.Lock()
			w.close(l)
			w.mu.Unlock()
			return
		}
		w.mu.Lock()
		l.sent(args)
		w.mu.Unlock()
	}
}

// close ends a line on both sides. The caller holds mu.
func (w *world) close(l *line) {
	if !l.open {
		return
	}
	l.open = false
	l.channels = nil
	close(l.down)
	_ = l.far.Close()
	w.lines = slices.DeleteFunc(w.lines, func(other *line) bool { return other == l })
}

// sent sends a command on its way. The caller holds the world's mu.
func (l *line) sent(args []string) {
	p := l.process
	w := p.world
	m := l.server.read(args)
	about := m.name + " " + serial(m.owner)
	if m.owner == "" {
		about = m.name + " on " + string(rune('0'+l.id%10))
	}
	l.numbers[about]++
	m.nth = l.numbers[about]
	w.counts.Operations[m.name]++
	w.wireCheck(p, m)
	f := l.fateOf(m)
	if l.ear && m.name == "hello" { // go-redis has a mutex while it waits for that
		f = fate{}
	}
	if isCut(l.cutTo) {
		w.counts.Faults["request in a partition"]++
		if !p.crashed && chance.New(w.plan.seed, 11, chance.Digest(about), uint64(m.nth)).Chance(500) {
			f.out += time.Until(l.cutTo) // it is repeated until it gets through
		} else {
			l.stalled = true
		}
	}
	if l.stalled {
		return
	}
	if f.lostRequest {
		w.fails(p, m, f)
		l.breaks(f)
		return
	}
	if f.out > 10*time.Millisecond {
		w.counts.Faults["late request"]++
	}
	l.arrives = later(l.arrives.Add(1), time.Now().Add(f.out))
	at := l.arrives
	w.traveling.Go(func() { l.arrive(m, f, at) })
	if f.again > 0 && m.owner != "" {
		w.traveling.Go(func() { l.arriveAgain(m, at.Add(f.again)) })
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// breaks lets a line stall, or break when the answer would have come. The caller
// holds the world's mu.
func (l *line) breaks(f fate) {
	l.stalled = true
	if f.reset {
		l.process.world.after(f.out+f.back, func() {
			l.process.world.mu.Lock()
			defer l.process.world.mu.Unlock()
			l.process.world.close(l)
		})
	}
}

// arrive has a command executed, also if the client has closed its end meanwhile.
func (l *line) arrive(m message, f fate, at time.Time) {
	p := l.process
	w := p.world
	time.Sleep(time.Until(at))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.reaches(l) {
		return
	}
	answer := w.execute(l, m)
	switch {
	case f.lostReply:
		w.fails(p, m, f)
		l.breaks(f)
	case isCut(l.cutFrom):
		w.counts.Faults["reply in a partition"]++
		l.stalled = true
	case f.halfReply:
		w.fails(p, m, f)
		l.stalled = true
		l.send(parcel{at: l.onWay(f.back), text: answer[:len(answer)/2], last: true})
	default:
		if f.back > 10*time.Millisecond {
			w.counts.Faults["slow reply"]++
		}
		l.send(parcel{at: l.onWay(f.back), text: answer, gate: l.ear && m.name != "hello"})
	}
}

// reaches tells whether a command that was sent gets to the server: it does not if
// that is down, or was since the connection was made. The caller holds mu.
func (w *world) reaches(l *line) bool {
	if time.Now().Before(l.server.down) || l.restarts != l.server.restarts {
		w.counts.Faults["request while down"]++
		return false
	}
	return true
}

// arriveAgain has a doubled command executed; nobody gets that answer.
func (l *line) arriveAgain(m message, at time.Time) {
	w := l.process.world
	time.Sleep(time.Until(at))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.reaches(l) {
		return
	}
	w.counts.Faults["twice"]++
	m.again = true
	w.execute(l, m)
}

// onWay returns when something that is sent to the client now arrives, behind all
// that was sent before. The caller holds the world's mu.
func (l *line) onWay(d time.Duration) time.Time {
	l.returns = later(l.returns.Add(1), time.Now().Add(d))
	return l.returns
}

// send hands something to the deliverer. The caller holds the world's mu.
func (l *line) send(p parcel) {
	if !l.open {
		return
	}
	select {
	case l.down <- p:
	default: // nobody reads it
		l.stalled = true
	}
}

// deliver writes to the client what has traveled long enough.
func (l *line) deliver() {
	w := l.process.world
	for p := range l.down {
		time.Sleep(time.Until(p.at))
		if p.gate {
			l.process.gate.Pass(uint64(l.id)) // its end is not gated
		}
		_, err := l.far.Write(p.text)
		if p.last || err != nil {
			w.mu.Lock()
			w.close(l)
			w.mu.Unlock()
		}
	}
}

// isCut tells whether a partition lasts until then.
func isCut(until time.Time) bool { return time.Now().Before(until) }

// fails counts a failure. The caller holds mu.
func (w *world) fails(p *process, m message, f fate) {
	w.counts.Faults[f.name]++
	w.note("p%d %s %s #%d: %s", p.id, m.name, serial(m.owner), m.nth, f.name)
}
