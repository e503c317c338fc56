package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/fence"
)

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
