// Servers that replicate streams, with links that can be cut.

package testnats

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// Ensemble is servers that replicate streams to each other. They reach each other by links, which
// can be cut.
type Ensemble struct {
	Servers []*Process
	links   testproxy.Mesh
}

// StartEnsemble starts n servers. They end with the test.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	e := new(Ensemble)
	t.Cleanup(e.links.Close)
	peers := make([]int, n)
	for i := range peers {
		peers[i] = freePort(t)
	}
	for i := range n {
		s := settings{Name: fmt.Sprint("s", i), Port: freePort(t), Dir: t.TempDir(), Peers: peers[i]}
		for j := range n {
			if i == j {
				continue
			}
			link, err := e.links.Link(i, j, fmt.Sprint("127.0.0.1:", peers[j]))
			require.NoError(t, err)
			s.Routes = append(s.Routes, "nats://"+link)
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
	return e.links.CutOff(slices.Index(e.Servers, p))
}
