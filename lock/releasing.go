package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	releasesAtATime = 64
	releaseTries    = 3
)

// releaseAll releases leases many at a time, as far as it gets within ctx.
func releaseAll(ctx context.Context, store Store, leases []Lease) error {
	if len(leases) == 0 {
		return nil
	}
	r := &releasing{store: store, leases: leases, left: len(leases), done: make(chan struct{})}
	workers := min(releasesAtATime, len(leases))
	r.workers = workers
	for range workers {
		go r.work(ctx)
	}
	_ = await(ctx, r.done, "") // what is left says it all
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return nil
	}
	err := r.first
	if err == nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("lock: Close: %d of %d locks not released, their TTL ends them: %w", r.left, len(leases), err)
}

// releasing is the work of releaseAll.
type releasing struct {
	store  Store
	leases []Lease

	mu      sync.Mutex // guards all below
	next    int        // of leases
	left    int        // not released
	first   error
	workers int
	done    chan struct{} // closed by the last worker
}

func (r *releasing) work(ctx context.Context) {
	ended := false
	defer func() {
		if !ended {
			go r.work(ctx) // the store called runtime.Goexit: the next goroutine goes on
		}
	}()
	for l, ok := r.take(ctx); ok; l, ok = r.take(ctx) {
		r.try(ctx, l)
	}
	ended = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers--; r.workers == 0 {
		close(r.done)
	}
}

// try releases one lease and notes what came of it.
func (r *releasing) try(ctx context.Context, l Lease) {
	err := errExited
	defer func() { r.settle(err) }()
	err = r.release(ctx, l)
}

func (r *releasing) take(ctx context.Context) (Lease, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.leases) || ctx.Err() != nil {
		return Lease{}, false
	}
	r.next++
	return r.leases[r.next-1], true
}

func (r *releasing) settle(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.left--
	} else if r.first == nil {
		r.first = err
	}
}

// release releases one lease, in a few tries.
func (r *releasing) release(ctx context.Context, l Lease) error {
	pause := cleanPause
	for try := 1; ; try++ {
		err := r.store.Release(ctx, l)
		switch {
		case err == nil || errors.Is(err, ErrNotHeld):
			return nil
		case final(err) || try == releaseTries:
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause *= 2
	}
}
