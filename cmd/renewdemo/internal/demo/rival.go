// The rival for the first lock on the page.

package demo

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// rival is a second process, or a second client if the store is in the memory of this process, that
// waits for the first lock whenever the demo holds it.
type rival struct {
	page *page
}

const (
	rivalPause = 100 * time.Millisecond
	rivalHolds = 3 * time.Second // at least, so that it can be seen
)

// run contends until ctx ends.
func (r *rival) run(ctx context.Context) {
	for sleep(ctx, rivalPause) == nil {
		if r.page.watched().Valid() {
			r.contend(ctx)
		}
	}
}

// contend waits for the lock once, and unlocks it when the fault is over.
func (r *rival) contend(ctx context.Context) {
	p := r.page
	peer, err := r.start(ctx)
	if err != nil {
		return
	}
	defer func() {
		_ = peer.close()
		p.feed.mark("rival gone", time.Now(), 0)
	}()
	stop := context.AfterFunc(ctx, func() { // a process that waits for a lock does not see that its input has ended
		if peer.process != nil {
			_ = peer.process.Kill()
		}
	})
	defer stop()
	p.feed.mark("rival waits", time.Now(), 0)
	if peer.send("lock %s %d", p.keyOf(0), p.ttl.Milliseconds()) != nil {
		return
	}
	has, err := peer.wait(ctx, "has")
	if err != nil {
		return
	}
	p.feed.mark("rival has", has.at, has.value)
	p.mu.Lock()
	if p.episode != nil && p.episode.Rival == 0 {
		p.episode.Rival = unixMS(has.at)
	}
	p.mu.Unlock()
	for end := time.Now().Add(rivalHolds); ; {
		p.mu.Lock()
		over := p.active == "" && time.Now().After(end)
		p.mu.Unlock()
		if over || sleep(ctx, rivalPause) != nil {
			return
		}
	}
}

// keptOpen is a store that a client does not close.
type keptOpen struct{ driver.Store }

func (keptOpen) Shutdown(context.Context) error { return nil }

func (r *rival) start(ctx context.Context) (*peer, error) {
	if r.page.config.store == "" {
		shared := *r.page.store.backend
		shared.Store = keptOpen{shared.Store}
		return startLocal(ctx, &shared), nil
	}
	return startHolder(r.page.config.store, nil) // it fails while the server is away, and starts again
}
