// Package tusdlock gives tusd, the server for resumable uploads, locks that several instances share.
//
//	composer := handler.NewStoreComposer()
//	filestore.New("/mnt/uploads").UseIn(composer)
//	tusdlock.New(client, nil).UseIn(composer)
//
// A client whose connection broke may come back through another instance, while the first one
// still reads from the dead connection. The new request waits for the lock. The holder's instance
// learns of that, and tusd ends the old request, which releases the lock. So the store must be one
// that supports Yields of [lock.Terms]; with others Lock returns [errors.ErrUnsupported].
//
// While a request runs, the client renews its lock. Do not use a client whose Terms have Fixed or
// MinHold: a request may take hours, and the next one must not wait. If an instance crashes, others
// get its locks after the TTL, for which tusd waits for AcquireLockTimeout, 20 s by default: a
// TTL below that spares uploaders an error.
//
// # Lost locks
//
// tusd asks for no notice of a lost lock, but what must happen is the same as when another request
// waits: the request has to end. So the Locker calls requestUnlock for both. tusd then reads no more
// of the body, and gives the storage up to GracefulRequestCompletionTimeout to write what
// it has. A lost lock does not protect that rest.
package tusdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/leasewheel/leasewheel/lock"
)

// Options configure a Locker. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix begins the keys of the locks. The id of the upload follows. Instances share locks if
	// they have the same storage, so groups of instances with different storages use different
	// prefixes. The default is "tusd/".
	Prefix string
}

// Locker is a [handler.Locker]. Its methods are safe for concurrent use.
type Locker struct {
	client *lock.Client
	prefix string
}

// New returns a Locker that uses the Terms of the given client, with Yields. It does no IO. A nil
// client is the error of Lock.
func New(client *lock.Client, o *Options) *Locker {
	if o == nil {
		o = &Options{}
	}
	return &Locker{client.With(lock.Terms{Yields: true}), cmp.Or(o.Prefix, "tusd/")}
}

// UseIn makes the handlers of a composer use the Locker.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload and no error. It does no IO. The methods of the lock are
// safe for concurrent use.
//
// Lock returns [handler.ErrLockTimeout] if the lock is taken until ctx ends. If the store does not
// answer, the error matches [lock.ErrUnavailable], and tusd responds with status 503. Other errors
// are those of [lock.Mutex.Lock]. After a Lock without error, requestUnlock is called at most once
// and on a goroutine of its own: when another Lock waits, when the lock is lost, or when the client
// is closed. It is not called after Unlock, unless the two cross. It may call Unlock.
//
// Errors of Unlock are those of [lock.Held.Unlock]. tusd drops them; the Logger of the client
// reports what matters.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	return &uploadLock{mutex: l.client.Mutex(l.prefix + id)}, nil
}

type uploadLock struct {
	mutex *lock.Mutex
	held  atomic.Pointer[lock.Held] // of the latest Lock; nil before
}

// Lock implements [handler.Lock].
func (u *uploadLock) Lock(ctx context.Context, requestUnlock func()) error {
	held, err := u.mutex.Lock(ctx)
	if err != nil {
		return refusal(err)
	}
	u.held.Store(held)
	go func() { // ends with the lock
		select {
		case <-held.Wanted():
		case <-held.Done():
		}
		if !errors.Is(held.Err(), lock.ErrNotHeld) { // it is not unlocked
			requestUnlock()
		}
	}()
	return nil
}

// Unlock implements [handler.Lock].
func (u *uploadLock) Unlock() error {
	if err := u.held.Load().Unlock(context.Background()); err != nil {
		return fmt.Errorf("tusdlock: %w", err)
	}
	return nil
}

// errUnavailable is the response to requests that got no answer from the store.
var errUnavailable = handler.NewError("ERR_LOCK_UNAVAILABLE", "the lock of the upload is unavailable", http.StatusServiceUnavailable)

// refusal returns the error of a request that gets no lock. tusd sends the uploader the text of an
// error that is no handler.Error, and that of an outage may name servers.
func refusal(err error) error {
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		return handler.ErrLockTimeout
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrClosed), errors.Is(err, lock.ErrTooMany):
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return fmt.Errorf("tusdlock: %w", err)
}
