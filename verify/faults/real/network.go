// The network between a client and the server, through Toxiproxy.

package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is the network between a client and the server.
type link struct{ proxy *toxiproxy.Proxy }

// newLinks returns n links to the server at addr. The caller must close them.
func newLinks(n int, addr string) ([]*link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var links []*link
	for i := range n {
		l := &link{toxiproxy.NewProxy(server, fmt.Sprint("client ", i), "127.0.0.1:0", addr)}
		if err := l.proxy.Start(); err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

func (l *link) addr() string { return l.proxy.Listen }

func (l *link) close() { l.proxy.Stop() }

// Directions as seen from the client.
const (
	up   = "upstream"
	down = "downstream"
)

// addFault adds a fault to one direction of the link until heal.
func (l *link) addFault(direction, kind string, attributes map[string]int64) error {
	toxic, err := json.Marshal(map[string]any{
		"name": kind + direction, "type": kind, "stream": direction, "toxicity": 1, "attributes": attributes,
	})
	if err != nil {
		return err
	}
	_, err = l.proxy.Toxics.AddToxicJson(bytes.NewReader(toxic))
	return err
}

// heal removes all faults. Connections whose data was dropped break.
func (l *link) heal(ctx context.Context) { l.proxy.Toxics.ResetToxics(ctx) }
