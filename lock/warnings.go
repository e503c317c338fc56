// Warnings: Locks that wait for long, and handles and clients that have become garbage.

package lock

import (
	"context"
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

const (
	defaultWarnAfter = 30 * time.Second // of Options

	maxInspected   = 10 // keys for which one check asks the store
	inspectTimeout = 3 * time.Second
)

// checkWaits reports calls of Lock that wait for long. It runs once per periodic.Interval while there are any
// calls.
func (c *core) checkWaits() (next time.Duration) {
	calls, more := c.queues.waitedSince(time.Now().Add(-c.warnAfter))
	if len(calls) > 0 {
		c.reportLongWaits(calls)
	}
	if more {
		return periodic.Interval
	}
	return 0
}

// reportLongWaits logs calls of Lock that wait for long, one record for each key. A
// goroutine does it, because the store is asked for the holders. Close waits for the
// goroutine as for any other call of the store.
func (c *core) reportLongWaits(keys map[string]int) {
	if !c.gate.Enter() {
		return
	}
	go func() {
		defer c.gate.Leave()
		asked := 0
		for key, calls := range keys {
			attrs := []slog.Attr{
				slog.String("key", key),
				slog.Duration("waited", c.warnAfter),
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
	if !c.can.Inspects {
		return nil
	}
	caller, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	ctx, stop := c.whileOpen(caller)
	defer stop()
	info, err := c.store.Inspect(ctx, key)
	if err != nil {
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
