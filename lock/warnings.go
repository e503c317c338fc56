// This file is about warnings: Locks that wait for long, and handles and clients that have become garbage.

package lock

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// A handle that becomes garbage without Unlock leaves a lock that is renewed for ever. The
// garbage collector notices it, because nothing that lives as long as the lease refers to
// the heldLease: the watchdog has the entry, and the functions that an entry calls at its
// end refer to the entry only. A context of the handle refers to the heldLease, so code that
// still has such a context counts as a holder.
//
// A cleanup takes a few hundred nanoseconds and about 100 bytes. Most locks are held for
// less than a second, so only older ones get one. Until then the client itself refers to
// the heldLease.

// maxYoung is the age in checks above which a lease gets its cleanup, so that it has been
// held for one to two seconds.
const maxYoung = 1

// checkAges gives older leases their cleanups and reports calls of Lock that wait for long.
// It runs once per periodic.Interval while there is something to check.
func (c *core) checkAges() (next time.Duration) {
	c.young.tick()
	leases, young := c.young.take(maxYoung)
	for ; len(leases) > 0; leases, young = c.young.take(maxYoung) {
		for _, s := range leases {
			if !s.entry.Deadline().IsZero() {
				runtime.AddCleanup(s, reportDroppedHandle, droppedHandle{weak.Make(s.entry), weak.Make(c.logger)})
			}
		}
	}
	c.waiting.tick()
	calls, waiting := c.waiting.take(c.warnAfter)
	if len(calls) > 0 {
		c.reportLongWaits(calls)
	}
	if young || waiting {
		return periodic.Interval
	}
	return 0
}

// droppedHandle is what is left of a heldLease that is garbage. Its pointers are weak, because
// code of the user that they lead to, such as a hook, may refer to the handle. The watchdog keeps
// both alive while it renews the lease.
type droppedHandle struct {
	entry  weak.Pointer[renewal.Entry[driver.Lease]]
	logger weak.Pointer[slog.Logger]
}

// reportDroppedHandle runs on a goroutine of the runtime, outside any synctest bubble. So
// it must not use methods of the entry that compare the clock with the deadline.
func reportDroppedHandle(d droppedHandle) {
	entry, logger := d.entry.Value(), d.logger.Value()
	if entry == nil || logger == nil || entry.Deadline().IsZero() { // unlocked, lost, or the client was closed
		return
	}
	lease := entry.Lease()
	logger.Warn("lock: a handle was dropped without Unlock; its lock stays held, and is renewed unless its terms are Fixed",
		slog.String("key", lease.Key), slog.Uint64("token", lease.Token))
}

// droppedClient is what is left of a client that is garbage.
type droppedClient struct {
	watchdog *renewal.Watchdog[driver.Lease]
	logger   *slog.Logger
}

// reportDroppedClient runs on a goroutine of the runtime. It stops nothing, because the
// store may be used by others.
func reportDroppedClient(d droppedClient) {
	d.logger.Warn("lock: a Client was dropped without Close; its goroutines and connections stay, and its locks are renewed",
		slog.Int("held", d.watchdog.Stats().Held))
}

// maxClients is the number of open clients from which New warns.
const maxClients = 100

var openClients atomic.Int64

// opened counts a client and has its drop reported.
func (c *core) opened() {
	if c.engine != nil {
		logging.DisownWheel(c.engine)
	}
	c.dropped = runtime.AddCleanup(c, reportDroppedClient, droppedClient{c.watchdog, c.logger})
	if n := openClients.Add(1); n > maxClients {
		logging.Condition(logging.PerProcess(c.logger),
			"lock: many Clients are open in this process: make one, use it for all locks, and Close it",
			slog.Int64("clients", n))
	}
}

// notOpen undoes opened, at the beginning of Close.
func (c *core) notOpen() {
	openClients.Add(-1)
	c.dropped.Stop()
}

const (
	defaultWarnAfter = 30 * time.Second // of Options

	maxInspected   = 10 // keys for which one check asks the store
	inspectTimeout = 3 * time.Second
)

// warnAfter returns Options.WarnAfter in checks, rounded up, or -1 for never.
func warnAfter(d time.Duration) int {
	if d < 0 {
		return -1
	}
	checks := d / periodic.Interval
	if d%periodic.Interval > 0 {
		checks++
	}
	return int(min(checks, math.MaxInt32))
}

// longWait is a call of Lock that is reported if it takes long.
type longWait struct {
	key  string
	node ageNode[longWait]
}

// longWaits keeps unused ones, so that a Lock does not allocate its own.
var longWaits = sync.Pool{New: func() any { return new(longWait) }}

// beginWait has a Lock reported if it takes longer than Options.WarnAfter. When the Lock
// ends, the caller must call endWait with the result.
func (c *Client) beginWait(key string) *longWait {
	if c.warnAfter < 0 || c.patient {
		return nil
	}
	w := longWaits.Get().(*longWait)
	w.key = key
	c.waiting.add(&w.node, w)
	c.ages.Need()
	return w
}

func (c *core) endWait(w *longWait) {
	if w != nil && c.waiting.remove(&w.node) { // otherwise it is being reported
		w.key = ""
		longWaits.Put(w)
	}
}

// reportLongWaits logs calls of Lock that wait for long, one record for each key. A
// goroutine does it, because the store is asked for the holders. Close waits for the
// goroutine as for any other call of the store.
func (c *core) reportLongWaits(calls []*longWait) {
	if c.begin() != nil {
		return
	}
	keys := make(map[string]int)
	for _, w := range calls {
		keys[w.key]++
	}
	go func() {
		defer c.done()
		asked := 0
		for key, calls := range keys {
			attrs := []slog.Attr{
				slog.String("key", key),
				slog.Duration("waited", time.Duration(c.warnAfter)*periodic.Interval),
				slog.Int("calls", calls),
			}
			if asked++; asked <= maxInspected {
				attrs = append(attrs, c.holders(key)...)
			}
			c.logger.LogAttrs(context.Background(), slog.LevelWarn, "lock: Lock waits for long", attrs...)
		}
	}()
}

// holders asks the store who holds a lock.
func (c *core) holders(key string) []slog.Attr {
	inspector, ok := c.store.(driver.Inspector)
	if !ok {
		return nil
	}
	caller, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	ctx, stop := c.whileOpen(caller)
	defer stop()
	info, err := inspector.Inspect(ctx, key)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return []slog.Attr{slog.Any("inspectError", err)}
	}
	attrs := []slog.Attr{slog.Int("holders", info.Held), slog.Int("queued", info.Waiting)}
	if info.FreeIn > 0 {
		attrs = append(attrs, slog.Duration("freeIn", info.FreeIn))
	}
	if len(info.Holders) > 0 {
		h := info.Holders[0]
		attrs = append(attrs, slog.Group("holder",
			slog.String("metadata", h.Metadata), slog.Uint64("token", h.Token), slog.Duration("expiresIn", h.ExpiresIn)))
	}
	return attrs
}

// ageList finds items that stay in it for long. An item contains its node, so adding and
// removing it takes a mutex and no memory. The age is counted in ticks, so that a pause of
// the process does not count.
type ageList[T any] struct {
	mu          sync.Mutex // guards the fields below and those of all nodes
	first, last *ageNode[T]
	now         int // ticks so far
}

// ageNode is a place in an ageList. The list is in the order of added.
type ageNode[T any] struct {
	prev, next *ageNode[T]
	item       *T // nil unless the node is in the list
	added      int
}

// add adds an item, whose node is n.
func (l *ageList[T]) add(n *ageNode[T], item *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n = ageNode[T]{prev: l.last, item: item, added: l.now}
	if n.prev == nil {
		l.first = n
	} else {
		n.prev.next = n
	}
	l.last = n
}

// remove removes the item of n. It returns false if the item is not in the list.
func (l *ageList[T]) remove(n *ageNode[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.item == nil {
		return false
	}
	l.unlink(n)
	return true
}

// unlink is called with mu held.
func (l *ageList[T]) unlink(n *ageNode[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = ageNode[T]{}
}

// tick makes all items older by one.
func (l *ageList[T]) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
}

// maxTaken bounds the time for which take holds the mutex.
const maxTaken = 1000

// take removes and returns items that are older than age, at most maxTaken. It also reports
// whether items are left.
func (l *ageList[T]) take(age int) (old []*T, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(old) < maxTaken && l.first != nil && l.now-l.first.added > age {
		old = append(old, l.first.item)
		l.unlink(l.first)
	}
	return old, l.first != nil
}
