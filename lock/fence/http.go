// The HTTP header for tokens, and the handler that checks it.

package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Header is the HTTP header for the token of a request. In a response with status 412, it
// is the highest token that the resource has seen.
const Header = "Fencing-Token"

// Handler returns a handler that guards next with the tokens of requests. A request with a
// higher token begins after all requests with lower tokens have ended. From then on lower
// tokens are rejected. The handler responds with
//
//	428 Precondition Required   without a token, unless the method is GET, HEAD, OPTIONS or TRACE
//	400 Bad Request             with an invalid token
//	412 Precondition Failed     with a stale token
//	503 Service Unavailable     if the guard fails, for example if the request ends while it waits
//
// A GET, HEAD, OPTIONS or TRACE request without a token is not guarded. The function
// resource returns the resource of a request; by default it is the request's path. If g is
// nil, Handler uses a [NewMemory] of the default size.
//
// All work of next must be done when next returns, because later work is not guarded.
// Handler panics if next is nil.
func Handler(next http.Handler, g Guard, resource func(*http.Request) string) http.Handler {
	if next == nil {
		panic("fence: Handler of a nil http.Handler")
	}
	if g == nil {
		g = NewMemory(0)
	}
	if resource == nil {
		resource = func(r *http.Request) string { return r.URL.Path }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(Header)
		if text == "" {
			if !safe(r.Method) {
				http.Error(w, "a "+Header+" is required", http.StatusPreconditionRequired)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		token, err := strconv.ParseUint(text, 10, 64)
		if err != nil || token == 0 || len(r.Header.Values(Header)) > 1 {
			http.Error(w, "the "+Header+" must be one positive number", http.StatusBadRequest)
			return
		}
		leave, err := g.Enter(r.Context(), resource(r), token)
		if err != nil {
			refuse(w, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	if !errors.As(err, &stale) {
		http.Error(w, "the "+Header+" cannot be checked", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(Header, strconv.FormatUint(stale.Highest, 10))
	http.Error(w, "the "+Header+" is stale", http.StatusPreconditionFailed)
}

// Holder is the holder of a lock that sends a token, such as a *lock.Held.
type Holder interface {
	Token() uint64
	Err() error
}

// SetHeader sets the header of a request to the holder's token. It returns the holder's
// Err if the lock is no longer held, ErrNoToken if the holder has no token, and an error
// that names a nil argument. After an error, the request must not be sent.
func SetHeader(r *http.Request, h Holder) error {
	switch {
	case r == nil:
		return errors.New("fence: SetHeader: the request is nil")
	case h == nil:
		return errors.New("fence: SetHeader: the holder is nil")
	}
	if err := h.Err(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if h.Token() == 0 {
		return ErrNoToken
	}
	if r.Header == nil { // http.NewRequest did not make the request
		r.Header = make(http.Header)
	}
	r.Header.Set(Header, strconv.FormatUint(h.Token(), 10))
	return nil
}

// CheckResponse returns a *StaleError if the response rejects the request's token as
// stale, and nil otherwise. A nil response rejects nothing.
func CheckResponse(resp *http.Response) error {
	if resp == nil || resp.StatusCode != http.StatusPreconditionFailed || resp.Header.Get(Header) == "" {
		return nil
	}
	e := new(StaleError)
	e.Highest, _ = strconv.ParseUint(resp.Header.Get(Header), 10, 64)
	if resp.Request != nil {
		if resp.Request.URL != nil {
			e.Resource = resp.Request.URL.Path
		}
		e.Token, _ = strconv.ParseUint(resp.Request.Header.Get(Header), 10, 64)
	}
	return e
}
