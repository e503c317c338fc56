// The answers to requests that get no lock.

package httplock

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// refuse answers a request that did not get its lock. The text of the error may name servers, so
// the client does not get it.
func (m *middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if m.o.Refuse != nil {
		m.o.Refuse(w, r, err)
		return
	}
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		w.Header().Set("Retry-After", m.retryAfter(err))
		http.Error(w, "another request has the lock", cmp.Or(m.o.Status, http.StatusConflict))
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrClosed), errors.Is(err, lock.ErrTooMany):
		w.Header().Set("Retry-After", m.retryAfter(err))
		http.Error(w, "the lock is unavailable", http.StatusServiceUnavailable)
	case errors.Is(err, lock.ErrBadKey):
		http.Error(w, "the request has no valid key for its lock", http.StatusBadRequest)
	default:
		m.logger.Error("httplock: request not served", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

// retryAfter returns the rest of the holder's lease, if the error holds it.
func (m *middleware) retryAfter(err error) string {
	after := cmp.Or(max(0, m.o.RetryAfter), time.Second)
	var taken *lock.HeldError
	if errors.As(err, &taken) && taken.ExpiresIn > 0 {
		after = taken.ExpiresIn
	}
	seconds := (after + time.Second - 1) / time.Second
	return strconv.FormatInt(int64(seconds), 10)
}
