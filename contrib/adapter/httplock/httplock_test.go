package httplock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/adapter/httplock"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble calls test in virtual time with a client.
func bubble(t *testing.T, test func(t *testing.T, store *memstore.Store, client *lock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		test(t, store, adaptertest.NewClient(t, store))
	})
}

// post sends a request to a handler and returns the answer.
func post(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
	return answer
}

// uncalled is a handler that must not be called.
func uncalled(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") })
}

// take locks a key until the end of the test.
func take(t *testing.T, client *lock.Client, key string) *lock.Held {
	t.Helper()
	held, err := client.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	return held
}

func TestARequestHasItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, client *lock.Client) {
		mux := http.NewServeMux()
		key := func(r *http.Request) string { return "order/" + r.PathValue("id") }
		mux.Handle("POST /orders/{id}", httplock.New(client, key, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			held := httplock.Held(r.Context())
			assert.Equal(t, "order/7", held.Key())
			assert.True(t, held.Valid())
			assert.Positive(t, held.Token())
			_, err := client.Mutex("order/7").TryLock(t.Context())
			assert.ErrorIs(t, err, lock.ErrNotAcquired)
			again, err := client.Reentrant("order/7").Lock(r.Context())
			assert.NoError(t, err, "the context carries the ownership")
			assert.NoError(t, again.Unlock(r.Context()))
			w.WriteHeader(http.StatusAccepted)
		})))
		assert.Equal(t, http.StatusAccepted, post(t, mux, "/orders/7").Code)
		assert.Zero(t, store.Len())
		assert.Nil(t, httplock.Held(t.Context()))
		assert.False(t, httplock.Held(t.Context()).Valid())
	})
}

func TestTheMiddlewareTwice(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, client *lock.Client) {
		oneAtATime := httplock.New(client, nil, nil)
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		assert.Equal(t, http.StatusAccepted, post(t, oneAtATime(oneAtATime(h)), "/a").Code)
		assert.Zero(t, store.Len())
	})
}

func TestTheLockIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, client *lock.Client) {
		take(t, client, "/a")
		time.Sleep(500 * time.Millisecond) // a part of its 30 s has passed
		answer := post(t, httplock.New(client, nil, nil)(uncalled(t)), "/a")
		assert.Equal(t, http.StatusConflict, answer.Code)
		assert.Equal(t, "another request has the lock\n", answer.Body.String())
		assert.Equal(t, "30", answer.Header().Get("Retry-After"), "29.5 s are rounded up")

		answer = post(t, httplock.New(client, nil, &httplock.Options{Status: http.StatusLocked})(uncalled(t)), "/a")
		assert.Equal(t, http.StatusLocked, answer.Code)
	})
}

func TestWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, client *lock.Client) {
		held := take(t, client, "/a")
		wait := func(d time.Duration) func(http.Handler) http.Handler {
			return httplock.New(client, nil, &httplock.Options{Wait: d, RetryAfter: 1500 * time.Millisecond})
		}
		start := time.Now()
		answer := post(t, wait(time.Minute)(uncalled(t)), "/a")
		assert.Equal(t, time.Minute, time.Since(start))
		assert.Equal(t, http.StatusConflict, answer.Code)
		assert.Equal(t, "2", answer.Header().Get("Retry-After"))

		time.AfterFunc(time.Minute, func() { assert.NoError(t, held.Unlock(t.Context())) })
		served := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour) // the time of the handler is not limited
			assert.NoError(t, r.Context().Err())
		})
		assert.Equal(t, http.StatusOK, post(t, wait(2*time.Minute)(served), "/a").Code)
		assert.Equal(t, 2*time.Minute+time.Hour, time.Since(start))

		take(t, client, "/a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wait(time.Minute)(uncalled(t)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/a", nil))
		assert.Equal(t, 2*time.Minute+time.Hour+time.Second, time.Since(start), "the request has ended")
	})
}

func TestTheLockIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, client *lock.Client) {
		ends := httplock.New(client, nil, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			store.Delete("/a")
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), lock.ErrLost)
			w.WriteHeader(http.StatusTeapot)
		}))
		assert.Equal(t, http.StatusTeapot, post(t, ends, "/a").Code, "the handler has answered")

		goesOn := httplock.New(client, nil, &httplock.Options{KeepContext: true})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.True(t, httplock.Held(r.Context()).Valid())
			store.Delete("/a")
			time.Sleep(time.Minute)
			assert.NoError(t, r.Context().Err())
			assert.False(t, httplock.Held(r.Context()).Valid())
		}))
		assert.Equal(t, http.StatusOK, post(t, goesOn, "/a").Code)
	})
}

func TestPanicsReleaseTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, client *lock.Client) {
		for _, oops := range []any{"oops", http.ErrAbortHandler} {
			h := httplock.New(client, nil, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				assert.Equal(t, 1, store.Len())
				panic(oops)
			}))
			assert.PanicsWithValue(t, oops, func() { post(t, h, "/a") })
			assert.Zero(t, store.Len())
		}
	})
}

func TestAnswersToErrors(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, client *lock.Client) {
		var text bytes.Buffer
		o := &httplock.Options{Logger: slog.New(slog.NewTextHandler(&text, nil)), RetryAfter: 3 * time.Second}
		h := httplock.New(client, func(r *http.Request) string { return r.URL.Path[1:] }, o)(uncalled(t))
		assert.Equal(t, http.StatusBadRequest, post(t, h, "/").Code)
		assert.Equal(t, http.StatusBadRequest, post(t, h, "/"+strings.Repeat("x", lock.MaxKeyLen+1)).Code)
		assert.Empty(t, text.String())

		_, err := client.Semaphore("s", 2).Lock(t.Context())
		require.NoError(t, err)
		answer := post(t, h, "/s")
		assert.Equal(t, http.StatusInternalServerError, answer.Code)
		assert.Equal(t, "Internal Server Error\n", answer.Body.String())
		synctest.Wait()
		assert.Contains(t, text.String(), "httplock: request not served")
		assert.Contains(t, text.String(), "is a semaphore, not a mutex")
		assert.Empty(t, answer.Header().Get("Retry-After"))

		require.NoError(t, client.Close(t.Context()))
		answer = post(t, h, "/a")
		assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		assert.Equal(t, "3", answer.Header().Get("Retry-After"))
	})
}

func TestNoRequestWaitsForTheLogger(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, client *lock.Client) {
		reader, writer := io.Pipe() // nobody reads
		defer reader.Close()
		_, err := client.Semaphore("/s", 2).Lock(t.Context())
		require.NoError(t, err)
		h := httplock.New(client, nil, &httplock.Options{Logger: slog.New(slog.NewTextHandler(writer, nil))})(uncalled(t))
		assert.Equal(t, http.StatusInternalServerError, post(t, h, "/s").Code)
	})
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(memstore.New(), &lock.Options{MaxWaiters: 1})
		require.NoError(t, err)
		defer client.Close(context.Background())
		take(t, client, "/a")
		h := httplock.New(client, nil, &httplock.Options{Wait: time.Minute})(uncalled(t))
		go post(t, h, "/a")
		synctest.Wait()
		assert.Equal(t, http.StatusServiceUnavailable, post(t, h, "/a").Code)
		time.Sleep(time.Hour)
	})
}

func TestTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := errors.New("10.0.0.1:6379 does not answer")
		store := (&locktest.Faulty{Before: func(context.Context, locktest.Op) error { return secret }}).Over(memstore.New())
		answer := post(t, httplock.New(adaptertest.NewClient(t, store), nil, nil)(uncalled(t)), "/a")
		assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		assert.Equal(t, "1", answer.Header().Get("Retry-After"))
		assert.Equal(t, "the lock is unavailable\n", answer.Body.String())
	})
}

func TestRefuse(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, client *lock.Client) {
		take(t, client, "/a")
		o := &httplock.Options{Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			assert.Equal(t, "/a", r.URL.Path)
			assert.ErrorIs(t, err, lock.ErrNotAcquired)
			w.WriteHeader(http.StatusTooManyRequests)
		}}
		answer := post(t, httplock.New(client, nil, o)(uncalled(t)), "/a")
		assert.Equal(t, http.StatusTooManyRequests, answer.Code)
		assert.Empty(t, answer.Header())
	})
}

func TestMisuse(t *testing.T) {
	assert.PanicsWithValue(t, "httplock: the handler is nil", func() { httplock.New(nil, nil, nil)(nil) })
	quiet := &httplock.Options{Logger: slog.New(slog.DiscardHandler)}
	assert.Equal(t, http.StatusInternalServerError, post(t, httplock.New(nil, nil, quiet)(uncalled(t)), "/a").Code)
}
