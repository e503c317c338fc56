package redisconn

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowSlots is a ClusterSlots function that a test answers. Each call sends to asked and
// returns the address that the test then sends to answer, as the master of all slots.
type slowSlots struct {
	asked  chan struct{}
	answer chan string
}

func (s slowSlots) read(ctx context.Context) ([]redis.ClusterSlot, error) {
	select {
	case s.asked <- struct{}{}:
		return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: <-s.answer}}}}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func newSlowCluster(t *testing.T) (*Client, slowSlots) {
	t.Helper()
	s := slowSlots{asked: make(chan struct{}), answer: make(chan string)}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: s.read})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c := newClient(t, rdb, Options{})
	return c, s
}

// A reading that began before a node was suspected may return the slots of before.
func TestARequestDuringARefreshIsAnsweredByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, slots := newSlowCluster(t)
		current, r := c.cluster.requestRefresh()
		assert.Nil(t, current)
		<-slots.asked
		current, next := c.cluster.requestRefresh()
		assert.Same(t, r, current)
		assert.NotSame(t, r, next)
		slots.answer <- "127.0.0.1:1"
		<-r.done
		assert.Equal(t, "127.0.0.1:1", c.Serving(0).Addr())

		<-slots.asked
		slots.answer <- "127.0.0.2:1"
		synctest.Wait()
		assert.Equal(t, "127.0.0.2:1", c.Serving(0).Addr())
	})
}

func TestMastersAreReadAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, slots := newSlowCluster(t)
		c.cluster.requestRefresh()
		<-slots.asked
		result := make(chan []*Node, 1)
		go func() {
			nodes, _, err := c.Masters(t.Context(), true)
			assert.NoError(t, err)
			result <- nodes
		}()
		synctest.Wait()
		slots.answer <- "127.0.0.1:1"
		<-slots.asked
		slots.answer <- "127.0.0.2:1"
		require.Equal(t, []string{"127.0.0.2:1"}, addrsOf(<-result))
	})
}

// One reading answers the calls that wait for the first slots of a client.
func TestCallsWithoutSlotsShareARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, slots := newSlowCluster(t)
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.Master(t.Context(), 0)
				results <- err
			}()
			synctest.Wait()
		}
		<-slots.asked
		slots.answer <- "127.0.0.3:1"
		for range 2 {
			assert.NoError(t, <-results)
		}
	})
}
