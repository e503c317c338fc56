package history

import (
	"sync"
	"testing/synctest"
	"time"
)

// fate is what becomes of one request.
type fate int

const (
	arrives    fate = iota
	crashes         // its process does not live to send it
	losesReply      // it is executed, the reply is lost, the connection breaks
	isLate          // it is executed when the schedule says so; nobody hears the reply
	isLost          // it is never executed
)

// process is a process that uses a lock. Between any two of its requests a schedule
// can do with it what it likes.
type process struct {
	*play
	name  string
	ahead time.Duration // of its clock
	late  []func()      // requests under way

	mu          sync.Mutex // guards all below
	connections []*connection
	stopIn      int           // requests until it stands still, 0: none
	still       chan struct{} // not nil while it stands still; closed when it goes on
	next        fate          // of the next request
	dead, cut   bool
	deaf        bool // messages to it are lost
}

// process starts a process.
func (p *play) process(name string) *process {
	proc := &process{play: p, name: name}
	p.Cleanup(proc.crash)
	return proc
}

func (p *process) say(format string, args ...any) { p.play.say(p.name, format, args...) }

// now is the clock of the process.
func (p *process) now() time.Time { return time.Now().Add(p.ahead) }

// call is something that a process does.
type call struct{ done chan struct{} }

// begins does something that may not come to its end for now.
func (p *process) begins(do func()) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		do()
	}()
	synctest.Wait()
	return c
}

// ends waits for the end of it.
func (c *call) ends() { <-c.done }

// stopsBefore makes the process stand still before the n-th request from now on.
func (p *process) stopsBefore(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopIn = n
}

// stops makes the process stand still: nothing leaves it.
func (p *process) stops() {
	p.say("STANDS STILL")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still = make(chan struct{})
}

// goesOn ends that.
func (p *process) goesOn() {
	p.say("GOES ON")
	p.mu.Lock()
	if p.still != nil {
		close(p.still)
	}
	p.still = nil
	p.mu.Unlock()
	synctest.Wait()
}

// the next request meets that fate.
func (p *process) nextRequest(f fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = f
}

// deliver executes what is late.
func (p *process) deliver() {
	for _, execute := range p.late {
		execute()
	}
	p.late = nil
	synctest.Wait()
}

// cutOff keeps everything from it, and what it sends from the servers.
func (p *process) cutOff(cut bool) {
	if cut {
		p.say("is CUT OFF")
	} else {
		p.say("is connected again")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// hearsNothing loses messages that are published to it.
func (p *process) hearsNothing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// crashes ends the process between two requests.
func (p *process) crashes() {
	p.say("CRASHES")
	p.crash()
	synctest.Wait()
}

func (p *process) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.connections {
		c.close()
	}
	if p.still != nil {
		close(p.still)
		p.still = nil
	}
}

// add notes a connection, unless the process is dead.
func (p *process) add(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections = append(p.connections, c)
	return !p.dead
}

func (p *process) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *process) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

// meet returns the fate of a request that is about to leave, after a time if the
// process stands still. Only ours are counted.
func (p *process) meet(request string, ours bool) fate {
	p.mu.Lock()
	if ours && p.stopIn > 0 {
		if p.stopIn--; p.stopIn == 0 {
			p.still = make(chan struct{})
			p.say("STANDS STILL before %s", request)
		}
	}
	still := p.still
	p.mu.Unlock()
	if still != nil {
		<-still
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	f := arrives
	if ours {
		f, p.next = p.next, arrives
	}
	switch {
	case p.dead:
		return crashes
	case p.cut:
		f = isLost
	}
	if f == isLate || f == isLost {
		p.say("%s  %s", request, map[fate]string{isLate: "is under way, late", isLost: "is lost"}[f])
	}
	return f
}
