package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func enter(t *testing.T, g fence.Guard, resource string, token uint64) (leave func()) {
	t.Helper()
	leave, err := g.Enter(t.Context(), resource, token)
	require.NoError(t, err)
	return leave
}

func TestMemoryRefusesLowerTokens(t *testing.T) {
	m := fence.NewMemory(0)
	enter(t, m, "a", 7)()
	enter(t, m, "a", 7)()
	enter(t, m, "b", 3)()
	_, err := m.Enter(t.Context(), "a", 6)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.ErrorIs(t, err, fence.ErrStale)
	assert.Equal(t, fence.StaleError{Resource: "a", Token: 6, Highest: 7}, *stale)
	assert.Contains(t, err.Error(), "highest token is 7")
	_, err = m.Enter(t.Context(), "a", 0)
	require.ErrorIs(t, err, fence.ErrNoToken)
	enter(t, m, "a", 8)()
	assert.Equal(t, 2, m.Len())
}

func TestMemoryWaitsForLowerTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fence.NewMemory(0)
		one, two := enter(t, m, "a", 1), enter(t, m, "a", 1)
		entered := make(chan func(), 2)
		wait := func(token uint64) {
			leave, err := m.Enter(t.Context(), "a", token)
			assert.NoError(t, err)
			entered <- leave
		}
		go wait(2)
		go wait(2)
		overtaken := make(chan error, 1)
		synctest.Wait()
		one()
		one() // a second call has no effect
		synctest.Wait()
		assert.Empty(t, entered)
		_, err := m.Enter(t.Context(), "a", 1)
		require.ErrorIs(t, err, fence.ErrStale, "a waiting higher token already rejects it")
		two()
		first, second := <-entered, <-entered
		enter(t, m, "b", 1)() // other resources do not wait

		go func() {
			_, err := m.Enter(t.Context(), "a", 3)
			overtaken <- err
		}()
		synctest.Wait()
		go wait(4)
		synctest.Wait()
		first()
		second()
		require.ErrorIs(t, <-overtaken, fence.ErrStale)
		(<-entered)()

		hold := enter(t, m, "a", 5)
		cause := errors.New("the cause")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		_, err = m.Enter(ctx, "a", 6)
		require.ErrorIs(t, err, cause)
		_, err = m.Enter(ctx, "a", 6)
		require.ErrorIs(t, err, cause, "the context ended before Enter")
		hold()
		enter(t, m, "a", 6)()
	})
}

func TestMemoryForgetsNoToken(t *testing.T) {
	m := fence.NewMemory(3)
	held := enter(t, m, "used", 1)
	for i, token := range []uint64{30, 10, 20, 40} {
		enter(t, m, fmt.Sprint("r", i), token)()
	}
	assert.Equal(t, 3, m.Len())
	_, err := m.Enter(t.Context(), "r1", 9)
	require.ErrorIs(t, err, fence.ErrStale, "r1 is forgotten, but the guard remembers a higher token")
	enter(t, m, "used", 1)() // in use, so it is remembered
	held()
	_, err = m.Enter(t.Context(), "r3", 39)
	require.ErrorIs(t, err, fence.ErrStale)
	enter(t, m, "new", 50)()
	assert.Equal(t, 3, m.Len())
	_, err = m.Enter(t.Context(), "r1", 9)
	require.ErrorIs(t, err, fence.ErrStale, "although the last forgotten token is lower")
}

func TestMemoryForgetsTheLowestTokens(t *testing.T) {
	m := fence.NewMemory(2)
	enter(t, m, "x", 10)()
	enter(t, m, "y", 20)()
	enter(t, m, "x", 30)()
	enter(t, m, "z", 40)()
	enter(t, m, "new", 25)() // otherwise x was forgotten, and 30 is the lowest known token
}

// A waiting request counts as active: its resource is not forgotten between the end of
// the last request and its own start.
func TestMemoryKeepsResourcesWithWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			m := fence.NewMemory(1)
			first := enter(t, m, "a", 1)
			entered := make(chan func(), 1)
			go func() {
				leave, err := m.Enter(t.Context(), "a", 2)
				assert.NoError(t, err)
				entered <- leave
			}()
			synctest.Wait()
			first()
			enter(t, m, "b", 3)()
			leave := <-entered
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := m.Enter(ctx, "a", 4)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, "a request with a lower token is active")
			leave()
		}
	})
}

// No request is active after one with a higher token has begun.
func TestMemoryWithConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resources = 5
		m := fence.NewMemory(3)
		var mu sync.Mutex // guards all below
		in := [resources]map[uint64]int{}
		var highest [resources]uint64
		refused, used := 0, 0
		var wg sync.WaitGroup
		for i := range 400 {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			wg.Go(func() {
				time.Sleep(time.Duration(i+rng.IntN(30)) * time.Millisecond)
				at, token := rng.IntN(resources), uint64(i/4+1)
				leave, err := m.Enter(t.Context(), fmt.Sprint(at), token)
				mu.Lock()
				if err != nil {
					assert.ErrorIs(t, err, fence.ErrStale)
					refused++
					mu.Unlock()
					return
				}
				used++
				assert.GreaterOrEqual(t, token, highest[at])
				highest[at] = token
				if in[at] == nil {
					in[at] = map[uint64]int{}
				}
				for other, n := range in[at] {
					assert.False(t, other != token && n > 0, "%d enters while %d is in", token, other)
				}
				in[at][token]++
				mu.Unlock()
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
				mu.Lock()
				in[at][token]--
				mu.Unlock()
				leave()
			})
		}
		wg.Wait()
		assert.Greater(t, refused, 20)
		assert.Greater(t, used, 100)
	})
}

func TestTheZeroMemoryIsReadyToUse(t *testing.T) {
	m := new(fence.Memory)
	assert.Zero(t, m.Len())
	enter(t, m, "a", 7)()
	enter(t, m, "b", 3)()
	_, err := m.Enter(t.Context(), "a", 6)
	require.ErrorIs(t, err, fence.ErrStale)
	assert.Equal(t, 2, m.Len(), "it remembers more than one resource")
}

func TestANilContextIsAnError(t *testing.T) {
	var none context.Context
	_, err := fence.NewMemory(0).Enter(none, "a", 1)
	require.EqualError(t, err, "fence: the context is nil")
	require.EqualError(t, fence.Tx(none, new(sql.DB), fence.SQLite, "a", 1, func(*sql.Tx) error { return nil }), "fence: the context is nil")
	require.EqualError(t, fence.CheckTx(none, new(sql.Tx), fence.SQLite, "a", 1), "fence: the context is nil")
}

func TestErrorsNameTheNilArgument(t *testing.T) {
	stored := func() *sql.Row { return nil }
	require.ErrorContains(t, fence.CheckResult("r", 1, nil, nil, stored), "the result is nil")
	require.ErrorContains(t, fence.CheckResult("r", 1, driver.RowsAffected(1), nil, nil), "the func is nil")
	require.ErrorContains(t, fence.CheckResult("r", 1, driver.RowsAffected(0), nil, stored), "the row of the stored token is nil")
	f := func(*sql.Tx) error { return nil }
	require.ErrorContains(t, fence.Tx(t.Context(), nil, fence.SQLite, "r", 1, f), "the database is nil")
	require.ErrorContains(t, fence.Tx(t.Context(), new(sql.DB), fence.SQLite, "r", 1, nil), "the func is nil")
	require.ErrorContains(t, fence.CheckTx(t.Context(), nil, fence.SQLite, "r", 1), "the transaction is nil")
	require.ErrorContains(t, fence.SetHeader(nil, holder{token: 1}), "the request is nil")
	require.ErrorContains(t, fence.SetHeader(httptest.NewRequest(http.MethodPut, "/", nil), nil), "the holder is nil")
	assert.PanicsWithValue(t, "fence: Handler of a nil http.Handler", func() { fence.Handler(nil, nil, nil) })
}

func TestANilResponseRejectsNothing(t *testing.T) {
	require.NoError(t, fence.CheckResponse(nil))
	resp := &http.Response{StatusCode: http.StatusPreconditionFailed, Header: http.Header{fence.Header: {"9"}}, Request: new(http.Request)}
	require.Equal(t, &fence.StaleError{Highest: 9}, fence.CheckResponse(resp), "a response without its request")
}
