package redisstore

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// dialer makes connections. It can mute those with a subscription: they stay open and still
// send, but receive nothing.
type dialer struct {
	pings atomic.Int64

	mu   sync.Mutex // guards subs
	subs []*mutable
}

type mutable struct {
	net.Conn
	dialer *dialer
	known  bool // as a subscription; only the writer uses it
	muted  atomic.Bool
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &mutable{Conn: conn, dialer: d}, nil
}

// Write implements net.Conn.
func (c *mutable) Write(p []byte) (int, error) {
	if !c.known && bytes.Contains(p, []byte("subscribe")) {
		c.known = true
		c.dialer.mu.Lock()
		c.dialer.subs = append(c.dialer.subs, c)
		c.dialer.mu.Unlock()
	}
	if c.known && bytes.Contains(p, []byte("ping")) {
		c.dialer.pings.Add(1)
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *mutable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.muted.Load() {
			return n, err
		}
	}
}

// mute mutes all subscriptions that exist.
func (d *dialer) mute() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.subs {
		c.muted.Store(true)
	}
}

func (d *dialer) subscriptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.subs)
}

func countLines(s string) int { return strings.Count(s, "addr=") - strings.Count(s, "laddr=") }
