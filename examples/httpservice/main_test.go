package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// bubble calls test in virtual time with a function that sends a request to ship order 7,
// which takes a minute.
func bubble(t *testing.T, test func(t *testing.T, store *faulttest.Server, client *lock.Client, post func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := faulttest.NewServer(memstore.New())
		client, err := lock.New(store, nil)
		require.NoError(t, err)
		defer client.Close(context.Background())
		handler := routes(client, func(ctx context.Context) error { return pretend(ctx, time.Minute) }, io.Discard)
		test(t, store, client, func() int {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders/7/ship", nil))
			return answer.Code
		})
	})
}

func TestAnOrderIsShippedByOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, _ *faulttest.Server, _ *lock.Client, post func() int) {
		first := make(chan int)
		go func() { first <- post() }()
		synctest.Wait()
		assert.Equal(t, http.StatusConflict, post())
		assert.Equal(t, http.StatusOK, <-first)
		assert.Equal(t, http.StatusOK, post(), "the lock is free again")
	})
}

func TestAStoreThatFailsIsNoContention(t *testing.T) {
	bubble(t, func(t *testing.T, store *faulttest.Server, _ *lock.Client, post func() int) {
		store.Fail(errors.New("connection refused"))
		assert.Equal(t, http.StatusServiceUnavailable, post())
	})
	bubble(t, func(t *testing.T, store *faulttest.Server, _ *lock.Client, post func() int) {
		store.Hang()
		assert.Equal(t, http.StatusServiceUnavailable, post())
	})
}

func TestALossIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, _ *faulttest.Server, client *lock.Client, post func() int) {
		time.AfterFunc(30*time.Second, func() { assert.NoError(t, client.ForceRelease(t.Context(), "order/7")) })
		assert.Equal(t, http.StatusInternalServerError, post())
	})
}

func TestAClosedClientIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, _ *faulttest.Server, client *lock.Client, post func() int) {
		require.NoError(t, client.Close(t.Context()))
		assert.Equal(t, http.StatusServiceUnavailable, post())
	})
}

func TestASignalFinishesTheRequests(t *testing.T) {
	server := testredis.Start(t)
	service := exampletest.Start(t, "-addr", "127.0.0.1:0", "-redis", "redis://"+server.Addr(), "-work", "500ms")
	_, addr, _ := strings.Cut(service.WaitFor("listening on "), "listening on ")
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Post("http://"+addr+"/orders/7/ship", "", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- resp.Status + ": " + string(body)
	}()
	service.WaitFor("shipping 7")
	out := service.Terminate()
	assert.Equal(t, "200 OK: shipped 7\n", <-answer)
	assert.True(t, strings.HasSuffix(out, "finishing the requests\nstopped\n"), out)
	http.DefaultClient.CloseIdleConnections()

	n, err := server.Client(t).Exists(t.Context(), "lw:{order/7}").Result()
	require.NoError(t, err)
	assert.Zero(t, n, "the lock is released")
}

// schedules is how many schedules of faults a test plays.
const schedules = 300

// request returns a function that sends a request to ship an order.
func request(ship func(ctx context.Context, r *faulttest.Resource) error) func(context.Context, *lock.Client, *faulttest.Resource) error {
	return func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		handler := routes(client, func(ctx context.Context) error { return ship(ctx, r) }, io.Discard)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders/7/ship", nil))
		return nil
	}
}

func TestFaults(t *testing.T) {
	faulttest.Run(t, schedules, request(func(ctx context.Context, r *faulttest.Resource) error {
		return errors.Join(r.Write(ctx), pretend(ctx, time.Minute), r.Write(ctx))
	}))
}
