// Package seam gives the tests of natsstore control over what a program cannot change. They are in
// another module, because they need a server. Package natsstore sets the functions.
package seam

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Inside is what the tests change in a store.
type Inside struct {
	Poll, Bound *time.Duration // how often waiters ask at least; the bound of calls
	JetStream   *jetstream.JetStream
	Conn        *nats.Conn
	SetClock    func(ahead time.Duration) // of the server, as the store believes
}

var (
	// Of returns the inside of a store.
	Of func(store any) Inside

	// Check is what New asks about the settings of a stream, with the default options.
	Check func(c jetstream.StreamConfig) error
)
