// The handles of the names that are locked.

package certmagiclock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/lock"
)

// names are the locks that this process holds. certmagic knows a lock by its name alone. There is
// more than one lock of a name only if one was lost, and locked again before its first holder
// called Unlock.
type names struct {
	mu   sync.Mutex
	held map[string][]*watched // guarded by mu; the oldest first
}

func (n *names) add(name string, w *watched) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil {
		n.held = map[string][]*watched{}
	}
	n.held[name] = append(n.held[name], w)
}

// removeOldest removes the oldest lock of a name and returns it, or nil. So a lock that is valid
// is not released before everyone who has locked the name has called Unlock.
func (n *names) removeOldest(name string) *watched {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.held[name]
	switch len(all) {
	case 0:
		return nil
	case 1:
		delete(n.held, name)
	default:
		n.held[name] = all[1:]
	}
	return all[0]
}

// only returns the lock of a name. If there are several, nobody knows which one the caller means.
func (n *names) only(name string) (*watched, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch all := n.held[name]; len(all) {
	case 0:
		return nil, lock.ErrNotHeld
	case 1:
		return all[0], nil
	default:
		return nil, all[0].held.Err()
	}
}

// replace replaces a lock by another one. It returns false if the old one is not there.
func (n *names) replace(name string, old, by *watched) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.held[name], old)
	if i < 0 {
		return false
	}
	n.held[name][i] = by
	return true
}

// watched is a lock whose loss is logged.
type watched struct {
	held *lock.Held
	stop func() // ends the watch
}

// watch returns a lock that is watched until unlock. While the lock is held, that takes no
// goroutine.
func (l *Locker) watch(name string, held *lock.Held) *watched {
	ctx, cancel := held.Context(context.Background())
	forget := context.AfterFunc(ctx, func() { l.logLoss(name, held.Err()) })
	return &watched{held, func() {
		forget()
		cancel()
	}}
}

// logLoss logs that a lock was lost. That the client was closed is no loss.
func (l *Locker) logLoss(name string, err error) {
	if !errors.Is(err, lock.ErrLost) {
		return
	}
	l.logger.Warn("certmagiclock: lock lost; certmagic works on without it", slog.String("name", name), slog.Any("error", err))
}

// unlock releases the lock. If it was lost, the error is the loss, even if unlock was called before.
func (w *watched) unlock(ctx context.Context) error {
	w.stop()
	err := w.held.Unlock(ctx)
	if loss := w.held.Err(); errors.Is(loss, lock.ErrLost) {
		return loss
	}
	return err
}
