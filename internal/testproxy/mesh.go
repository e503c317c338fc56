// The links between the servers of an ensemble.

package testproxy

// Mesh is the links between the servers of an ensemble, which are known by their numbers. The zero
// Mesh has none.
type Mesh struct{ links []link }

type link struct {
	from, to int
	*Proxy
}

// Link adds a link from a server to an address of another one, and returns its address.
func (m *Mesh) Link(from, to int, target string) (string, error) {
	p, err := New("tcp", target)
	if err != nil {
		return "", err
	}
	m.links = append(m.links, link{from, to, p})
	return p.Addr(), nil
}

// CutOff drops everything between a server and the others, in both directions, until heal is called.
func (m *Mesh) CutOff(server int) (heal func()) {
	var cut []link
	for _, l := range m.links {
		if l.from == server || l.to == server {
			l.Block()
			cut = append(cut, l)
		}
	}
	return func() {
		for _, l := range cut {
			l.Unblock()
		}
	}
}

// Close ends the links.
func (m *Mesh) Close() {
	for _, l := range m.links {
		l.Close()
	}
}
