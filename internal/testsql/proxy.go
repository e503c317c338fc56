// A proxy to a database server.

package testsql

import "github.com/leasewheel/leasewheel/internal/testproxy"

// Proxy is a proxy to a server, with the name of the database by way of it.
type Proxy struct {
	*testproxy.Proxy
	dsn func(addr string, params []string) string
}

func newProxy(network, target string, dsn func(addr string, params []string) string) (*Proxy, error) {
	p, err := testproxy.New(network, target)
	return &Proxy{p, dsn}, err
}

// DSN is that of the server, by way of the proxy.
func (p *Proxy) DSN(params ...string) string { return p.dsn(p.Addr(), params) }
