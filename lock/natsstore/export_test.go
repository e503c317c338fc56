package natsstore

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SetPoll makes waiters ask at least once in d.
func (s *Store) SetPoll(d time.Duration) { s.poll = d }

// Flush returns when the server has executed what the store has sent to it.
func (s *Store) Flush() error { return s.js.Conn().Flush() }

// SetClock makes the store believe that the clock of the server is ahead by d.
func (s *Store) SetClock(d time.Duration) { s.clock.set(time.Now(), d) }

// SetBound bounds calls by d.
func (s *Store) SetBound(d time.Duration) { s.bound = d }

// Check is what New asks about the settings of a stream, with the default options.
func Check(c jetstream.StreamConfig) error {
	o, err := (*Options)(nil).withDefaults()
	if err != nil {
		return err
	}
	return check(c, o)
}

// Disconnected reports whether the connection is known to be broken.
func (s *Store) Disconnected() bool { return disconnected(s.js.Conn()) }
