package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Release implements [Store]. Once a majority has confirmed it the others have as
// long again; what is not released by then is in the background.
func (q *quorum) Release(ctx context.Context, l Lease) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	if l.Unanswered {
		q.refuse(l.Owner)
	}
	g := cmp.Or(q.find(&l), q.findFailed(&l))
	if g == nil {
		return ErrNotHeld
	}
	leases, before := g.release(&l)
	at := slices.Collect(maps.Keys(leases))
	began := time.Now()
	answers, err := ask(ctx, q, min(l.TTL, quorumPatience), at, func(ctx context.Context, i int) (struct{}, error) {
		err := q.members[i].release(ctx, leases[i])
		g.released(i, err)
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	c := returns{need: q.need(&l.Request), members: len(q.members), done: before, gone: len(q.members) - before - len(at)}
	for left := len(at); left > 0 && !c.decided(); left-- {
		select {
		case a := <-answers:
			c.add(a)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !c.decided() {
		return fmt.Errorf("lock: quorum: no majority confirmed the release: %w", c.errs)
	}
	q.forget(g)
	linger(ctx, answers, len(at)-c.answered, time.Since(began))
	return c.verdict()
}

// returns counts the answers to a Release.
type returns struct {
	members, need int
	answered      int
	done, gone    int // by whom it was released, who did not have it
	errs          memberErrors
}

func (c *returns) add(a answer[struct{}]) {
	c.answered++
	switch {
	case a.err == nil:
		c.done++
	case errors.Is(a.err, ErrNotHeld):
		c.gone++
	default:
		c.errs.add(a.at, a.err)
	}
}

func (c *returns) decided() bool { return c.done >= c.need || c.lost() }

// lost: no majority had it.
func (c *returns) lost() bool { return c.gone > c.members-c.need }

func (c *returns) verdict() error {
	if c.lost() {
		return ErrNotHeld
	}
	return nil
}

// linger waits for n answers more, at most as long as the others took.
func linger[A any](ctx context.Context, answers <-chan answer[A], n int, others time.Duration) {
	timer := time.NewTimer(max(others, time.Millisecond))
	defer timer.Stop()
	for range n {
		select {
		case <-answers:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
