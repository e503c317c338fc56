package legacy

import (
	"sync"
	"testing/synctest"
	"time"
)

// fate decides what happens to one request.
type fate int

const (
	delivered fate = iota
	crashed        // the process ends before it sends the request
	replyLost      // the server executes the request; the reply is lost and the connection breaks
	delayed        // the server executes the request at deliverDelayed; the reply is lost
	lost           // the server never gets the request
)

// process simulates a process that uses a lock. A scenario can pause or crash
// it between any two requests.
type process struct {
	*scenario
	name  string
	ahead time.Duration // its clock is ahead by this
	late  []func()      // delayed requests
	hooks hooks         // of a process that plays a plan, or nil

	mu              sync.Mutex // guards the fields below
	connections     []*connection
	pauseIn         int           // number of requests until it pauses; 0 means never
	paused          chan struct{} // non-nil while paused; resume closes it
	next            fate          // fate of the next request
	dead            bool
	messagesDropped bool
}

// process starts a process.
func (p *scenario) process(name string) *process {
	proc := &process{scenario: p, name: name}
	p.Cleanup(proc.kill)
	return proc
}

func (p *process) say(format string, args ...any) { p.scenario.say(p.name, format, args...) }

// now returns the time by the clock of the process.
func (p *process) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.ahead)
}

// stepAhead steps the clock of the process.
func (p *process) stepAhead(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

// call is a running operation of a process.
type call struct{ done chan struct{} }

// start runs do in a goroutine and returns when the goroutine ends or blocks.
func (p *process) start(do func()) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		do()
	}()
	synctest.Wait()
	return c
}

// wait waits for the end of the call.
func (c *call) wait() { <-c.done }

// pauseBefore pauses the process before its n-th request from now.
func (p *process) pauseBefore(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauseIn = n
}

// resume ends a pause.
func (p *process) resume() {
	p.say("RESUMES")
	p.mu.Lock()
	if p.paused != nil {
		close(p.paused)
	}
	p.paused = nil
	p.mu.Unlock()
	synctest.Wait()
}

// setNextFate sets the fate of the next request.
func (p *process) setNextFate(f fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = f
}

// deliverDelayed executes the delayed requests.
func (p *process) deliverDelayed() {
	for _, execute := range p.late {
		execute()
	}
	p.late = nil
	synctest.Wait()
}

// dropMessages drops published messages to the process.
func (p *process) dropMessages() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messagesDropped = true
}

// crash ends the process between two requests.
func (p *process) crash() {
	p.say("CRASHES")
	p.kill()
	synctest.Wait()
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.connections {
		c.close()
	}
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// add registers a connection. It returns false if the process is dead.
func (p *process) add(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections = append(p.connections, c)
	return !p.dead
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) dropsMessages() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messagesDropped
}

// fateOf returns the fate of the next request. It blocks while the process is paused.
// Only requests of the user count, not those that go-redis sends by itself.
func (p *process) fateOf(request string, ours bool) fate {
	p.mu.Lock()
	if ours && p.pauseIn > 0 {
		if p.pauseIn--; p.pauseIn == 0 {
			p.paused = make(chan struct{})
			p.say("PAUSES before %s", request)
		}
	}
	paused := p.paused
	p.mu.Unlock()
	if paused != nil {
		<-paused
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	f := delivered
	if ours {
		f, p.next = p.next, delivered
	}
	if p.dead {
		return crashed
	}
	if f == delayed || f == lost {
		p.say("%s  %s", request, map[fate]string{delayed: "is delayed", lost: "is lost"}[f])
	}
	return f
}
