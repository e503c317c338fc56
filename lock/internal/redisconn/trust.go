package redisconn

import (
	"errors"
	"sync/atomic"
)

var errUntrusted = errors.New("connection was silent during an unanswered request, or is too old")

// trust tells which connections of a node may carry another request. It uses the numbers
// of the requests as a clock: a connection remembers the number of the latest request
// when it was dialed, and when something was last read from it.
type trust struct {
	requests  atomic.Uint64 // the number of the latest request
	minRead   atomic.Uint64 // connections that were last read from before it are dead
	minDialed atomic.Uint64 // connections that were dialed before it have old credentials
}

// nextRequest counts a request that is about to be sent and returns its number.
func (t *trust) nextRequest() uint64 { return t.requests.Add(1) }

// latestRequest returns the number of the latest request.
func (t *trust) latestRequest() uint64 { return t.requests.Load() }

// rejectSilent rejects the connections from which nothing was read since the request with
// that number was sent. Concurrent callers must hold a mutex.
func (t *trust) rejectSilent(number uint64) {
	t.minRead.Store(max(t.minRead.Load(), number))
}

// rejectDialed rejects the connections that have been dialed so far.
func (t *trust) rejectDialed() { t.minDialed.Store(t.nextRequest()) }

// accepts reports whether a connection may be used that was dialed and last read from at
// these requests.
func (t *trust) accepts(dialed, read uint64) bool {
	return read >= t.minRead.Load() && dialed >= t.minDialed.Load()
}
