package lock

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/periodic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

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
	if len(calls) == 0 || c.begin() != nil {
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
