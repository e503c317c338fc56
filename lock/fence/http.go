package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Header is the HTTP header of a request that holds its token. In a refusal with
// status 412 it holds the highest token that the resource has seen.
const Header = "Fencing-Token"

// Handler returns a handler that lets requests through to next by their tokens: one
// with a higher token begins when those with lower ones have ended, and lower ones
// are refused from then on. It answers
//
//	428 Precondition Required   without a token, unless the method is GET, HEAD, OPTIONS or TRACE
//	400 Bad Request             with what is no token
//	412 Precondition Failed     with a stale token
//	503 Service Unavailable     if the guard fails, as when the request ends while it waits
//
// A request of those methods without a token is let through unguarded. The resource
// is what resource says of a request, by default its path. A nil guard is a
// [NewMemory] of the default size.
//
// What next does must be done when it returns: work that goes on afterwards is not
// guarded. Handler panics if next is nil.
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
			http.Error(w, "the "+Header+" is not one number above 0", http.StatusBadRequest)
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

// Holder is who sends a token: a *lock.Held.
type Holder interface {
	Token() uint64
	Err() error
}

// Sign sets the header of a request to the token of the holder. It returns the
// holder's Err if the lock is not held any more, ErrNoToken if it has none, and an
// error that names the argument that is nil: then the request must not be sent.
func Sign(r *http.Request, h Holder) error {
	switch {
	case r == nil:
		return errors.New("fence: Sign: the request is nil")
	case h == nil:
		return errors.New("fence: Sign: the holder is nil")
	}
	if err := h.Err(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if h.Token() == 0 {
		return ErrNoToken
	}
	if r.Header == nil { // as in a request that was not made by http.NewRequest
		r.Header = make(http.Header)
	}
	r.Header.Set(Header, strconv.FormatUint(h.Token(), 10))
	return nil
}

// Refused returns a *StaleError if a response says that the token of its request was
// stale, nil if it does not. A nil response, as it comes with an error, does not.
func Refused(resp *http.Response) error {
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
