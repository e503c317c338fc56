// The order of the requests to each server.

package redsync

import (
	"slices"
	"sync"
)

// queue makes the calls of a mutex for one node run one after another, in the order of join. So
// a release is executed after the acquire that it belongs to, even if that got no answer.
type queue struct {
	mu    sync.Mutex // guards turns
	turns []chan struct{}
}

// join adds a call to the queue. The channel is closed when it is the call's turn.
func (q *queue) join() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := make(chan struct{})
	q.turns = append(q.turns, turn)
	if len(q.turns) == 1 {
		close(turn)
	}
	return turn
}

// leave removes a call, whether or not it had its turn.
func (q *queue) leave(turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.turns, turn)
	q.turns = slices.Delete(q.turns, at, at+1)
	if at == 0 && len(q.turns) > 0 {
		close(q.turns[0])
	}
}
