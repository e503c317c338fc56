package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// driver is the store of one process: the server beyond a network.
type driver struct {
	process *process

	mu      sync.Mutex // guards all below
	sent    map[string]int
	failed  map[string]bool // by owner: its last request did
	closed  bool
	closing chan struct{}

	unreleased map[string]bool        // by owner: a release of it got no answer
	ears       map[string]chan uint64 // owner → where it hears of tokens
}

// opTimeout ends at no instant at which anything else does.
const opTimeout = 2_500_000_123 * time.Nanosecond

func newDriver(p *process) *driver {
	return &driver{
		process: p,
		sent:    make(map[string]int),
		failed:  make(map[string]bool),

		unreleased: make(map[string]bool),
		closing:    make(chan struct{}),
		ears:       make(map[string]chan uint64),
	}
}

// offered is the driver as the client sees it: one that waits, or does not.
func (d *driver) offered() lock.Store {
	if d.process.world.plan.queue {
		return waitingDriver{d}
	}
	return d
}

// serial is the part of an owner that is the same in every run of a seed.
func serial(owner string) string { return owner[strings.LastIndexByte(owner, ':')+1:] }

// send numbers a message, draws its fate and sends it.
func (d *driver) send(ctx context.Context, timeout time.Duration, op string, owners []string, execute func(fate) any) (any, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, lock.ErrClosed
	}
	name := op + " " + owners[0]
	d.sent[name]++
	m := message{op, owners[0], d.sent[name]}
	f := d.process.fateOf(m)
	if d.process.world.plan.class == single && f.fails() && d.anyFailed(owners) {
		f.lostRequest, f.lostReply, f.refused = false, false, false
	}
	for _, owner := range owners {
		d.failed[owner] = f.fails()
	}
	d.mu.Unlock()
	d.process.world.sending(d.process, m, len(owners), f)
	return d.process.call(ctx, timeout, m, f, func() any { return execute(f) })
}

func (d *driver) anyFailed(owners []string) bool {
	return slices.ContainsFunc(owners, func(owner string) bool { return d.failed[owner] })
}

// Acquire implements lock.Store.
func (d *driver) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	a, sent, err := d.ask(ctx, "acquire", r, 0)
	switch {
	case err != nil:
		return lock.Lease{}, err
	case a.verdict == taken:
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: a.expiresIn}
	case a.verdict == refused:
		return lock.Lease{}, errGivenUp
	}
	d.process.world.confirmed(r.Key, a.token, sent, sent)
	return lock.Lease{Request: r, Token: a.token}, nil
}

var errGivenUp = fmt.Errorf("sim: %w: the acquisition was given up", lock.ErrNotAcquired)

// ask sends an acquire, and returns when.
func (d *driver) ask(ctx context.Context, op string, r lock.Request, place time.Duration) (answer, time.Time, error) {
	w, sent := d.process.world, time.Now()
	w.owns(r.Owner, d.process)
	got, err := d.send(ctx, opTimeout, op, []string{r.Owner}, func(fate) any {
		return w.server.acquire(r.Key, r.Owner, r.TTL, place)
	})
	if err != nil {
		return answer{}, sent, err
	}
	return got.(answer), sent, nil
}

// Renew implements renewal.Renewer.
func (d *driver) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	w, sent := d.process.world, time.Now()
	leases := slices.Clone(batch)
	var owners []string
	for _, l := range leases {
		owners = append(owners, l.Owner)
	}
	w.renewing(ctx, d.process, leases)
	got, err := d.send(ctx, time.Hour, "renew", owners, func(f fate) any {
		return w.server.renewAll(leases, f.dice, w.plan.net.partial)
	})
	if err == nil {
		copy(out, got.([]renewal.Outcome))
		if slices.Contains(out, renewal.Unknown) {
			err = errReset
		}
	}
	w.renewed(d.process, leases, out, sent)
	return err
}

// renewAll renews a batch, of which some may get no answer.
func (s *server) renewAll(batch []lock.Lease, d chance.Dice, partial int) []renewal.Outcome {
	out := make([]renewal.Outcome, len(batch))
	for i, l := range batch {
		held := s.renew(l.Key, l.Owner, l.Token, l.TTL)
		switch unanswered := partial > 0 && d.Chance(partial); {
		case unanswered:
		case held:
			out[i] = renewal.Renewed
		default:
			out[i] = renewal.Lost
		}
	}
	return out
}

// Release implements lock.Store.
func (d *driver) Release(ctx context.Context, l lock.Lease) error {
	w := d.process.world
	got, err := d.send(ctx, opTimeout, "release", []string{l.Owner}, func(fate) any {
		return w.server.release(l.Key, l.Owner, l.Unanswered)
	})
	switch {
	case err != nil:
		d.mu.Lock()
		d.unreleased[l.Owner] = true
		d.mu.Unlock()
		return err
	case !got.(bool):
		return lock.ErrNotHeld
	}
	return nil
}

var errClosedTwice = errors.New("sim: the store was closed twice")

// Close implements io.Closer.
func (d *driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosedTwice
	}
	d.closed = true
	close(d.closing)
	return nil
}
