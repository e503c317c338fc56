package fence_test

import (
	"context"
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
	assert.Equal(t, 2, m.Len(), "it has room for more than one")
}

func TestANilContextIsAnError(t *testing.T) {
	var none context.Context
	_, err := fence.NewMemory(0).Enter(none, "a", 1)
	require.EqualError(t, err, "fence: the context is nil")
}

func TestWhatIsNilIsNamed(t *testing.T) {
	require.ErrorContains(t, fence.Written("r", 1, nil, nil), "the result of the statement is nil")
	require.ErrorContains(t, fence.Sign(nil, holder{token: 1}), "the request is nil")
	require.ErrorContains(t, fence.Sign(httptest.NewRequest(http.MethodPut, "/", nil), nil), "the holder is nil")
	assert.PanicsWithValue(t, "fence: Handler of a nil http.Handler", func() { fence.Handler(nil, nil, nil) })
}

func TestAResponseThatIsNotThereRefusesNothing(t *testing.T) {
	require.NoError(t, fence.Refused(nil))
	resp := &http.Response{StatusCode: http.StatusPreconditionFailed, Header: http.Header{fence.Header: {"9"}}, Request: new(http.Request)}
	require.Equal(t, &fence.StaleError{Highest: 9}, fence.Refused(resp), "of a request that nothing is known of")
}
