// Servers that reach each other by links, which can be cut.

package testzk

import (
	"slices"
	"testing"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// Ensemble is servers that reach each other by links, which can be cut.
type Ensemble struct {
	Members []*Member
	links   testproxy.Mesh
}

// StartEnsemble is Start for servers with links.
//
// Of two servers the one with the higher number makes the connection for elections. If the other one
// tried, it would tell its own address, and get a connection that passes by the links. So it tries in
// vain, at a port where nobody listens.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	const nobody = "127.0.0.1:1"
	e := new(Ensemble)
	t.Cleanup(e.links.Close)
	e.Members = startWith(t, n, func(i, j int, at peers) (quorum, election string, err error) {
		quorum, err = e.links.Link(i, j, local(at.quorum))
		if err != nil || i < j {
			return quorum, nobody, err
		}
		election, err = e.links.Link(i, j, local(at.election))
		return quorum, election, err
	})
	return e
}

// CutOff drops everything between a server and the others, in both directions, until heal is called.
func (e *Ensemble) CutOff(m *Member) (heal func()) {
	return e.links.CutOff(slices.Index(e.Members, m))
}
