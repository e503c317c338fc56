package basic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/basic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAGateIsEmptyWhenTheLastCallHasLeft(t *testing.T) {
	var g basic.Gate
	require.True(t, g.Enter())
	require.True(t, g.Enter())
	g.Leave()
	empty := g.Close()
	assert.False(t, g.Enter(), "closed")
	assert.False(t, isClosed(empty))
	g.Leave()
	assert.True(t, isClosed(empty))
	assert.True(t, isClosed(g.Close()), "twice")
}

func TestAGateWithoutCallsIsEmptyAtOnce(t *testing.T) {
	var g basic.Gate
	require.True(t, g.Enter())
	g.Leave()
	assert.True(t, isClosed(g.Close()))
}
