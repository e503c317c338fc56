package testnats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// Ensemble is servers that replicate streams to each other. They reach each other by links, which
// can be cut.
type Ensemble struct {
	Servers []*Process
	links   [][]*testproxy.Proxy // links[i][j] is the way from i to j
}

// StartEnsemble starts n servers. They end with the test.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	e := &Ensemble{links: make([][]*testproxy.Proxy, n)}
	peers := make([]int, n)
	for i := range peers {
		peers[i] = freePort(t)
	}
	for i := range n {
		s := settings{Name: fmt.Sprint("s", i), Port: freePort(t), Dir: t.TempDir(), Peers: peers[i]}
		e.links[i] = make([]*testproxy.Proxy, n)
		for j := range n {
			if i == j {
				continue
			}
			link, err := testproxy.New("tcp", fmt.Sprint("127.0.0.1:", peers[j]))
			require.NoError(t, err)
			t.Cleanup(link.Close)
			e.links[i][j] = link
			s.Routes = append(s.Routes, "nats://"+link.Addr())
		}
		e.Servers = append(e.Servers, newProcess(t, s))
	}
	return e
}

// Named returns a server by its name, and the others.
func (e *Ensemble) Named(name string) (p *Process, others []*Process) {
	for _, s := range e.Servers {
		if s.Name() == name {
			p = s
		} else {
			others = append(others, s)
		}
	}
	return p, others
}

// CutOff drops everything between a server and the others, in both directions, until heal is called.
func (e *Ensemble) CutOff(p *Process) (heal func()) {
	var cut []*testproxy.Proxy
	for i, of := range e.links {
		for j, link := range of {
			if link != nil && (e.Servers[i] == p || e.Servers[j] == p) {
				link.Block()
				cut = append(cut, link)
			}
		}
	}
	return func() {
		for _, link := range cut {
			link.Unblock()
		}
	}
}
