package natsstore

import "time"

// SetPoll makes waiters ask at least once in d.
func (s *Store) SetPoll(d time.Duration) { s.poll = d }

// Flush returns when the server has executed what the store has sent to it.
func (s *Store) Flush() error { return s.js.Conn().Flush() }

// SetClock makes the store believe that the clock of the server is ahead by d.
func (s *Store) SetClock(d time.Duration) { s.clock.set(time.Now(), d) }
