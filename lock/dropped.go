package lock

import (
	"log/slog"
	"runtime"
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
	c.reportLongWaits(calls)
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
