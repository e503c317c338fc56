package fence_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/fence"
)

type holder struct {
	token uint64
	err   error
}

func (h holder) Token() uint64 { return h.token }
func (h holder) Err() error    { return h.err }

func TestHandler(t *testing.T) {
	served := 0
	h := fence.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served++ }), nil, nil)
	call := func(method, path string, tokens ...string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		for _, token := range tokens {
			r.Header.Add(fence.Header, token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		resp := w.Result()
		resp.Request = r
		return resp
	}
	for i, c := range []struct {
		method, path string
		tokens       string
		want         int
	}{
		{"PUT", "/a", "5", 200},
		{"PUT", "/a", "5", 200},
		{"PUT", "/a", "4", 412},
		{"GET", "/a", "4", 412},
		{"GET", "/a", "", 200},
		{"PUT", "/b", "4", 200},
		{"PUT", "/a", "18446744073709551615", 200},
		{"PUT", "/a", "6", 412},
		{"PUT", "/a", "", 428},
		{"DELETE", "/a", "", 428},
		{"PUT", "/c", "0", 400},
		{"PUT", "/c", "-1", 400},
		{"PUT", "/c", "x", 400},
		{"PUT", "/c", "18446744073709551616", 400},
		{"PUT", "/c", "5,6", 400},
	} {
		before := served
		var tokens []string
		if c.tokens != "" {
			tokens = strings.Split(c.tokens, ",")
		}
		resp := call(c.method, c.path, tokens...)
		assert.Equal(t, c.want, resp.StatusCode, "%d: %+v", i, c)
		assert.Equal(t, c.want == 200, served > before, "%d: %+v", i, c)
		assert.Equal(t, c.want == 412, fence.CheckResponse(resp) != nil, "%d: %+v", i, c)
	}
	var stale *fence.StaleError
	require.ErrorAs(t, fence.CheckResponse(call("PUT", "/b", "3")), &stale)
	assert.Equal(t, fence.StaleError{Resource: "/b", Token: 3, Highest: 4}, *stale)
}

func TestHandlerGuardsUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		begun := make(chan struct{}, 2)
		h := fence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			begun <- struct{}{}
			<-finish
		}), nil, nil)
		done := make(chan string, 2)
		serve := func(token string) {
			r := httptest.NewRequest(http.MethodPut, "/a", nil)
			r.Header.Set(fence.Header, token)
			h.ServeHTTP(httptest.NewRecorder(), r)
			done <- token
		}
		go serve("1")
		synctest.Wait()
		go serve("2")
		synctest.Wait()
		assert.Len(t, begun, 1)
		finish <- struct{}{}
		assert.Equal(t, "1", <-done)
		finish <- struct{}{}
		assert.Equal(t, "2", <-done)
	})
}

// failing is a Guard that returns errors.
type failing struct{}

func (failing) Enter(context.Context, string, uint64) (func(), error) { return nil, errors.New("full") }

func TestHandlerWithACustomGuard(t *testing.T) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is let through") })
	r := httptest.NewRequest(http.MethodPut, "/a", nil)
	r.Header.Set(fence.Header, "1")
	w := httptest.NewRecorder()
	fence.Handler(next, failing{}, nil).ServeHTTP(w, r)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)

	m := fence.NewMemory(0)
	byHost := func(r *http.Request) string { return r.Host }
	enter(t, m, "example.com", 9)()
	w = httptest.NewRecorder()
	fence.Handler(next, m, byHost).ServeHTTP(w, r)
	assert.Equal(t, http.StatusPreconditionFailed, w.Code)
}

func TestSetHeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/a", nil)
	lost := errors.New("lost")
	require.ErrorIs(t, fence.SetHeader(r, holder{7, lost}), lost)
	require.ErrorIs(t, fence.SetHeader(r, holder{}), fence.ErrNoToken)
	assert.Empty(t, r.Header.Get(fence.Header))
	require.NoError(t, fence.SetHeader(r, holder{token: 7}))
	bare := new(http.Request) // no Header
	require.NoError(t, fence.SetHeader(bare, holder{token: 7}))
	assert.Equal(t, "7", bare.Header.Get(fence.Header))
	assert.Equal(t, "7", r.Header.Get(fence.Header))
	require.NoError(t, fence.CheckResponse(&http.Response{StatusCode: http.StatusPreconditionFailed}), "a response without the header is about another precondition")
}
