package legacy

import "sync"

// fate decides what happens to one request.
type fate int

const (
	delivered fate = iota
	crashed        // the process ends before it sends the request
	replyLost      // the server executes the request; the reply is lost and the connection breaks
	lost           // the server never gets the request
)

// process simulates a process that uses a lock. It can crash between any two requests.
type process struct {
	*scenario
	name  string
	hooks hooks

	mu          sync.Mutex // guards the fields below
	connections []*connection
	dead        bool
}

// process starts a process.
func (p *scenario) process(name string) *process {
	proc := &process{scenario: p, name: name}
	p.Cleanup(proc.kill)
	return proc
}

// kill ends the process between two requests.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.connections {
		c.close()
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
