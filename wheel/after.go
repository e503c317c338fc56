// The channels of After, which all callers of a tick share.

package wheel

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// sharedTicks finds the channel of a tick. A tick with n trailing zero bits is kept in ring
// n, at the index of its bits above the lowest set one. So a tick has one place, however far
// ahead it is.
//
// A ring keeps a tick until another one needs its place. Nothing is removed, because a tick
// that is over is never asked for again, except by callers that were suspended meanwhile. They
// get its closed channel.
type sharedTicks [64]atomic.Pointer[[ringLen]atomic.Pointer[sharedTick]]

// ringLen is the number of ticks of a ring. Ticks of one place are 2·ringLen<<n ticks apart
// in ring n, and roundTick lets no tick use that ring that is so far ahead. So no tick
// displaces another one that is not over.
const (
	ringBits = 9
	ringLen  = 1 << ringBits
)

// sharedTick is the task that closes the channel of a tick.
type sharedTick struct {
	tick int64
	over chan struct{}
}

func (t *sharedTick) Run(schedule.Timer) { close(t.over) }

// After returns a channel that is closed at the end of the tick in which d has passed, never
// earlier. All callers that wait for the same tick get the same channel, so nothing has to be
// stopped and a call hardly ever allocates. After suits a timeout in a select statement:
//
//	select {
//	case v := <-work:
//		...
//	case <-w.After(5 * time.Second):
//		...
//	}
//
// A delay of more than 512 ticks is rounded up by at most 1/256, so that long delays share
// channels, too. If d is not positive, the channel is closed already.
//
// The channels of one tick count as one timer in Stats, also above Options.MaxPending: After
// never fails. The wheel closes them on its own goroutine, also if there is an Executor. Close
// hands those that are open to package time, which closes them when they are due. It also
// serves calls of After on a closed wheel, and on the zero Wheel.
//
// Inside a synctest bubble, call After only on a wheel that New made in that bubble. Otherwise
// the wheel would close a channel of the bubble from outside, which ends the program.
func (w *Wheel) After(d time.Duration) <-chan struct{} {
	c := w.core
	switch {
	case d <= 0:
		return closedChannel
	case c == nil:
		t := &sharedTick{over: make(chan struct{})}
		t.closeAfter(d)
		return t.over
	}
	now, tick := c.ticks(d)
	tick = roundTick(now, tick)
	zeros := bits.TrailingZeros64(uint64(tick)) // tick > 0, because d > 0
	if ring := c.after[zeros].Load(); ring != nil {
		if t := ring[uint64(tick)>>(zeros+1)%ringLen].Load(); t != nil && t.tick == tick {
			return t.over
		}
	}
	return c.shareTick(now, tick)
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// roundTick returns the tick that stands for a tick after now. It keeps about as many
// significant bits of the distance as a ring has places.
func roundTick(now, tick int64) int64 {
	unit := int64(1) << max(bits.Len64(uint64(tick-now))-ringBits, 0)
	return (tick + unit - 1) &^ (unit - 1)
}

// shareTick returns the channel of a tick, and makes it if there is none.
func (c *core) shareTick(now, tick int64) <-chan struct{} {
	zeros := bits.TrailingZeros64(uint64(tick))
	ring := c.after[zeros].Load()
	if ring == nil {
		c.after[zeros].CompareAndSwap(nil, new([ringLen]atomic.Pointer[sharedTick]))
		ring = c.after[zeros].Load()
	}
	place := &ring[uint64(tick)>>(zeros+1)%ringLen]
	t := &sharedTick{tick: tick, over: make(chan struct{})}
	for {
		old := place.Load()
		if old != nil && old.tick == tick {
			return old.over
		}
		if place.CompareAndSwap(old, t) {
			break
		}
	}
	if c.maxPending != 0 {
		c.taken.Add(1)
	}
	if _, err := c.shard().schedule(now, tick, t); err != nil {
		c.unreserve()
		c.handOver(t)
	}
	return t.over
}

// handOver lets package time close the channel of a tick, because the wheel is closed.
func (c *core) handOver(t *sharedTick) { t.closeAfter(c.tickEnd(t.tick) - time.Since(c.base)) }

func (t *sharedTick) closeAfter(d time.Duration) { time.AfterFunc(d, func() { close(t.over) }) }
