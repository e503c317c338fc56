// The Locker: one replica runs a job, once per period.

package gocronlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/leasewheel/leasewheel/lock"
)

// Options configure a Locker. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix begins the keys of the locks. The name of the job follows. Services that share a
	// store and have jobs of the same name use different ones. The default is "gocron/".
	Prefix string
}

// Locker is a [gocron.Locker]. The key of a job is its name after Options.Prefix; a job without a
// name has that of its function. Its methods are safe for concurrent use.
type Locker struct {
	client *lock.Client
	prefix string

	mu   sync.Mutex            // guards held
	held map[string]*lock.Held // the latest lock of each job that runs in this process
}

// New returns a Locker that uses the Terms of the given client. Set their MinHold, so that a
// job runs once per period; see the package comment. New does no IO. A nil client is the error
// of Lock.
func New(client *lock.Client, o *Options) *Locker {
	if o == nil {
		o = &Options{}
	}
	return &Locker{client: client, prefix: cmp.Or(o.Prefix, "gocron/"), held: map[string]*lock.Held{}}
}

// Lock tries to get the lock of a job, without waiting for it to be free. The error matches
// [lock.ErrNotAcquired] if another replica runs the job or has run it in this period, and
// [lock.ErrUnavailable] if the store gave no answer. Other errors are those of
// [lock.Mutex.TryLock].
//
// The ctx bounds the request alone. The lock is renewed until Unlock, whatever becomes of ctx.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	held, err := l.client.Mutex(l.prefix + name).TryLock(ctx)
	if err != nil {
		return nil, refusal(name, err)
	}
	l.mu.Lock()
	l.held[name] = held
	l.mu.Unlock()
	return &jobLock{locker: l, name: name, held: held}, nil
}

// Held returns the handle of the lock under which this process runs the job with the given
// name, or nil if it does not run it. A job calls it for the fencing token, for a context that
// ends when the lock is lost, or for Valid before a step that needs the lock. The methods of a
// nil handle are those of a lock that is not held.
func (l *Locker) Held(name string) *lock.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[name]
}

// refusal returns the error of a job that is skipped.
func refusal(name string, err error) error {
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		return fmt.Errorf("gocronlock: job %q runs elsewhere, or has run in this period: %w", name, err)
	case errors.Is(err, lock.ErrUnavailable):
		return fmt.Errorf("gocronlock: job %q is skipped because the store does not answer: %w", name, err)
	}
	return fmt.Errorf("gocronlock: job %q is skipped: %w", name, err)
}

// jobLock is the lock of one run of a job.
type jobLock struct {
	locker *Locker
	name   string
	held   *lock.Held
}

// Unlock implements [gocron.Lock]. Errors are those of [lock.Held.Unlock]: one that matches
// [lock.ErrLost] means that the job was not protected to its end. gocron drops them.
func (j *jobLock) Unlock(ctx context.Context) error {
	j.locker.forget(j.name, j.held)
	if err := j.held.Unlock(ctx); err != nil {
		return fmt.Errorf("gocronlock: job %q: %w", j.name, err)
	}
	return nil
}

// forget removes the handle of a run that has ended. If its lock was lost, the handle may be that
// of the next run already.
func (l *Locker) forget(name string, held *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] == held {
		delete(l.held, name)
	}
}
