// Package seam gives the tests of natsstore control over what a program cannot change. They are in
// another module, because they need a server. Package natsstore sets the functions; each takes a
// *natsstore.Store.
package seam

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// SetPoll makes waiters ask at least once in d.
	SetPoll func(store any, d time.Duration)

	// SetClock makes a store believe that the clock of the server is ahead by d.
	SetClock func(store any, d time.Duration)

	// SetBound bounds calls by d.
	SetBound func(store any, d time.Duration)

	// Wrap replaces the JetStream context of a store.
	Wrap func(store any, f func(jetstream.JetStream) jetstream.JetStream)

	// Conn returns the connection of a store.
	Conn func(store any) *nats.Conn

	// Check is what New asks about the settings of a stream, with the default options.
	Check func(c jetstream.StreamConfig) error
)
