// Package httplock is middleware for net/http that serves one request per key at a time, in
// all replicas of a service.
//
// A route changes by one line. The key of a request may be anything, such as an order:
//
//	oneAtATime := httplock.New(client, func(r *http.Request) string { return "order/" + r.PathValue("id") }, nil)
//	mux.Handle("POST /orders/{id}/ship", oneAtATime(ship))
//
// PathValue is empty outside the mux that matches the pattern, so wrap the handler of the
// route and not the mux.
//
// A request whose key is taken gets 409 Conflict, or waits for Options.Wait first. If the store
// does not answer, it gets 503 Service Unavailable. Both have a Retry-After.
//
// While a request is served, [Held] of its context is the handle of the lock: its Token is the
// fencing token for the database. The context ends if the lock is lost; see Options.KeepContext.
package httplock

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/lock"
)

// Options configure the middleware. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Wait is how long a request waits for its lock, if that is taken. Requests that wait are
	// served in order. By default a request does not wait. A request whose client goes away
	// stops waiting.
	Wait time.Duration

	// Status is the status for a request whose lock is taken: 409 by default; 423
	// (http.StatusLocked) is another choice.
	Status int

	// RetryAfter is the Retry-After of a request that may be sent again. If TryLock reports when
	// the lease of the holder ends, that is answered instead: it is the longest time until
	// the lock is free if the holder has crashed; a holder that works may be ready sooner or
	// later. The default is one second. Both are rounded up to seconds.
	RetryAfter time.Duration

	// KeepContext serves a request to its end even if its lock is lost. Its context is then that of
	// the request: it does not end with the lock, and does not carry the ownership that a
	// Reentrant needs. Call Held(ctx).Valid() before the step that matters, or send the fencing
	// token with it.
	KeepContext bool

	// Refuse answers a request that did not get its lock, instead of the middleware. The error
	// matches lock.ErrNotAcquired if the lock is taken, lock.ErrUnavailable if the store gave no
	// answer, and lock.ErrBadKey if the key is empty or too long; others are those of
	// lock.Reentrant.Lock.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)

	// Logger receives the errors that become status 500, such as lock.ErrWrongType. Nil
	// means slog.Default() at that time. No request waits for it.
	Logger *slog.Logger
}

// New returns middleware that serves one request per key at a time. The function key returns the
// key of a request; nil stands for the path. It is called concurrently, once for each request.
// All requests need a lock: wrap only the handlers that do.
//
// A handler that locks a lock.Reentrant of the same key with the context of its request enters
// the lock again. So does the same middleware twice around a handler.
//
// The lock is released when the handler has returned or panicked, also by
// http.ErrAbortHandler; the panic goes on. A response that net/http has not sent by then is sent
// after the release.
//
// Without the lock the handler is not called, and the response is
//
//	409 Conflict               if the lock is taken; see Options.Status
//	503 Service Unavailable    if the store gives no answer, the client is closed, or too many calls wait
//	400 Bad Request            if the key is empty or too long
//	500 Internal Server Error  for any other error, such as a key that is a lock of another kind
//
// The middleware panics if the handler is nil.
func New(client *lock.Client, key func(*http.Request) string, o *Options) func(http.Handler) http.Handler {
	m := &middleware{client: client, key: key}
	if o != nil {
		m.o = *o
	}
	m.logger = logging.New(m.o.Logger)
	if m.key == nil {
		m.key = func(r *http.Request) string { return r.URL.Path }
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplock: the handler is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	client *lock.Client
	key    func(*http.Request) string
	o      Options
	logger *slog.Logger // no request waits for the user's
}

// serve calls next while it holds the lock of the request. A loss after the response has begun
// cannot be reported to the client; the lock client logs it.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	l := lock.WaitAtMost(m.client.Reentrant(m.key(r)), m.o.Wait)
	served := false
	err := lock.Do(r.Context(), l, func(ctx context.Context, held *lock.Held) error {
		served = true
		if m.o.KeepContext {
			ctx = r.Context()
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, heldKey{}, held)))
		return nil
	})
	if !served {
		m.refuse(w, r, err)
	}
}

// heldKey is the key of the handle in a context.
type heldKey struct{}

// Held returns the handle of the lock under which the request with this context is served, or nil.
// The methods of a nil handle are those of a lock that is not held. The middleware
// unlocks it.
func Held(ctx context.Context) *lock.Held {
	held, _ := ctx.Value(heldKey{}).(*lock.Held)
	return held
}
