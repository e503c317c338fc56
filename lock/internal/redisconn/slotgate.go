package redisconn

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// The pause before a trial doubles from minTrialPause to maxTrialPause.
	minTrialPause = 20 * time.Millisecond
	maxTrialPause = 250 * time.Millisecond
)

// gate holds back the calls for a slot that is moving to another node. One of them at a
// time makes a trial: it pauses and is then sent. A reply other than TRYAGAIN opens the
// gate for all.
//
// Without a gate, each waiter for a lock would send its whole request again after each
// pause. The request of a batch has hundreds of kilobytes.
//
//	event                          effect
//	a call gets TRYAGAIN           it enters the gate of the slot; if there is none, it makes one
//	a call is begun                it enters the gate if there is one, unless it is eager
//	the trial gets TRYAGAIN        the pause doubles; any call at the gate makes the next trial
//	the trial gets another reply   the gate opens: all calls at it are sent
//	a call leaves                  the last one removes the gate; a trial in progress passes on
type gate struct {
	trial chan time.Duration // holds the pause before the next trial, unless a call makes one
	open  chan struct{}      // closed when the gate is open
	calls int                // at the gate; guarded by the cluster's mu
	err   error              // the TRYAGAIN because of which the gate was made
}

// slotCall is one call for a slot.
type slotCall struct {
	cluster *cluster
	slot    uint16
	gate    *gate         // nil: the call is at no gate
	pause   time.Duration // before the trial, if the call makes one; otherwise 0
}

// beginSlotCall begins a call for a slot. If the slot has a gate, the call enters it, and
// wait then blocks. An eager call does not enter the gate before its first TRYAGAIN, because
// the node may execute it although the node refuses scripts with more keys. The caller must
// call leave.
func (c *cluster) beginSlotCall(slot uint16, eager bool) *slotCall {
	call := &slotCall{cluster: c, slot: slot}
	if !eager && c.gateCount.Load() > 0 {
		c.mu.Lock()
		call.enter(c.gates[slot])
		c.mu.Unlock()
	}
	return call
}

// enter puts the call at a gate, which may be nil. The caller holds the cluster's mu.
func (s *slotCall) enter(g *gate) {
	if s.gate = g; g != nil {
		g.calls++
	}
}

// tryAgain handles a TRYAGAIN reply to the call. If the call was a trial, another one may
// follow. Otherwise the call enters the gate of the slot, which is made if there is none.
func (s *slotCall) tryAgain(err error) {
	if s.gate != nil && s.pause > 0 {
		s.endTrial(min(2*s.pause, maxTrialPause))
		return
	}
	s.leave() // a gate that has opened
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[s.slot]
	if g == nil {
		g = &gate{trial: make(chan time.Duration, 1), open: make(chan struct{}), err: err}
		g.trial <- minTrialPause
		c.gates[s.slot] = g
		c.gateCount.Add(1)
	}
	s.enter(g)
}

// endTrial lets another call make the next trial, after a pause.
func (s *slotCall) endTrial(pause time.Duration) {
	s.pause = 0
	s.gate.trial <- pause
}

// wait returns nil when the call may be sent: it is at no gate, its gate has opened, or it
// makes a trial and the pause is over. Otherwise it returns ErrClosed if the client is
// closed, and the TRYAGAIN error of the gate if ctx ends.
func (s *slotCall) wait(ctx context.Context) error {
	g := s.gate
	if g == nil {
		return nil
	}
	closed := s.cluster.ctx.Done()
	select {
	case <-g.open:
		return nil
	case s.pause = <-g.trial:
		timer := time.NewTimer(s.pause - rand.N(s.pause/4+1))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
		case <-closed:
		}
	case <-ctx.Done():
	case <-closed:
	}
	if s.cluster.ctx.Err() != nil {
		return ErrClosed
	}
	return g.err
}

// succeeded handles a reply other than TRYAGAIN. If the call was a trial, the gate opens.
func (s *slotCall) succeeded() {
	if s.pause == 0 {
		return
	}
	s.pause = 0
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeGate(s.slot, s.gate)
	close(s.gate.open)
}

// leave takes the call away from its gate, if it is at one. The last call removes the gate.
func (s *slotCall) leave() {
	g := s.gate
	if g == nil {
		return
	}
	if s.pause > 0 {
		s.endTrial(s.pause)
	}
	s.gate = nil
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.calls--; g.calls == 0 {
		c.removeGate(s.slot, g)
	}
}

// removeGate removes a gate unless it has been removed before. The caller holds mu.
func (c *cluster) removeGate(slot uint16, g *gate) {
	if c.gates[slot] == g {
		delete(c.gates, slot)
		c.gateCount.Add(-1)
	}
}
