package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// recordNotices returns the texts of the notices of a client from now on.
func recordNotices(cs *calls) *[]string {
	var told []string
	cs.OnNotice(func(n Notice, node int, detail string) {
		told = append(told, fmt.Sprintf("%d %s %s", node, map[Notice]string{ServerChanged: "changed"}[n], detail))
	})
	return &told
}

// A replica that becomes the master of the slots of its own master has taken over. Any other new
// master has slots that were moved. Slots that change together are told once, for both nodes.
func TestAFailOverIsToldFromAMove(t *testing.T) {
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, newCalls())
	defer func() {
		c.calls.Cancel()
		require.NoError(t, c.close())
	}()
	told := recordNotices(c.calls)
	serve := func(nodes ...string) {
		r := redis.ClusterSlot{End: SlotCount - 1}
		for _, addr := range nodes {
			r.Nodes = append(r.Nodes, redis.ClusterNode{Addr: addr})
		}
		require.NoError(t, c.applySlots([]redis.ClusterSlot{r}, ""))
	}
	serve("a:1", "b:1")
	assert.Empty(t, *told)
	serve("b:1")
	serve("c:1", "b:1")
	serve("c:1", "b:1")
	assert.Equal(t, []string{
		"1 changed b:1: was a replica of a:1 and is the master now",
		"2 changed b:1: was a replica of a:1 and is the master now",
	}, *told)
}

// A master that was demoted redirects calls. That is told before the slots are read again, because
// the new master answers the call before that.
func TestAFailOverIsToldByARedirection(t *testing.T) {
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, newCalls())
	defer func() {
		c.calls.Cancel()
		require.NoError(t, c.close())
	}()
	told := recordNotices(c.calls)
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "a:1"}, {Addr: "b:1"}}}}, ""))
	c.next = new(refresh) // otherwise a refresher would ask for the slots
	c.follow(redirection{addr: "b:1", asking: true}, 7)
	assert.Empty(t, *told, "ASK is about a single call")
	for slot := range uint16(3) {
		c.follow(redirection{addr: "b:1"}, slot)
	}
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "b:1"}, {Addr: "a:1"}}}}, ""))
	c.follow(redirection{addr: "b:1"}, 0) // a late answer of a:1
	assert.Equal(t, []string{
		"1 changed b:1: was a replica of a:1 and is the master now",
		"2 changed b:1: was a replica of a:1 and is the master now",
	}, *told)
}

// A server that refuses writes because it is a replica is told once a second.
func TestADemotedServerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "a:1"})
		defer func() { require.NoError(t, rdb.Close()) }()
		c, err := New(rdb, Options{PoolSize: 1, Timeout: time.Second})
		require.NoError(t, err)
		defer func() {
			c.Cancel()
			require.NoError(t, c.Close())
			c.Wait()
		}()
		told := recordNotices(c.calls)
		for _, err := range []error{
			nil, errors.New("READONLY is no reply of a server"), serverError("ERR unknown command READONLY"), context.DeadlineExceeded,
		} {
			c.noteResult(c.node, err)
		}
		assert.Empty(t, *told)
		demoted := []string{"0 changed a:1: refuses writes, because it is a replica now"}
		for _, reply := range []string{
			"READONLY You can't write against a read only replica. script: 123, on @user_script:17.",
			"ERR Error running script (call to f_123): @user_script:17: @user_script: 17: -READONLY You can't write against a read only replica.",
			"@user_script: 38: -READONLY You can't write against a read only replica.",
		} {
			for range 3 {
				c.noteResult(c.node, serverError(reply))
			}
			assert.Equal(t, demoted, *told, reply)
			*told = nil
			time.Sleep(demotionInterval)
		}
	})
}

// After a request without an answer, another server may serve. It knows no scripts, but the next batch carries
// the source, so the first answer may already tell that leases are missing.
func TestABatchAfterAFailureAsksWhichServerAnswers(t *testing.T) {
	t.Parallel()
	var id atomic.Value
	id.Store("a")
	w := &testredis.Wire{Answer: func(command []string) string {
		switch {
		case id.Load() == "":
			return "" // to any command
		case strings.EqualFold(command[0], "info"):
			text := fmt.Sprintf("# Server\r\nrun_id:%s\r\n", id.Load())
			return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		}
		return "+OK\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	told := recordNotices(c.calls)
	for range 3 { // the second one asks
		require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	}
	id.Store("")
	require.Error(t, sendBatch(t.Context(), c, "k", 1))
	require.Eventually(t, func() bool { return c.node.reconnects.Load() == 0 }, soon, time.Millisecond, "a connection that is probed is a new one, too")
	assert.Empty(t, *told)
	id.Store("b")
	require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	assert.Equal(t, []string{"0 changed " + c.node.addr + ": run_id a is now b"}, *told)
}

// Answers may come in another order than their questions, which may have gone to two servers.
func TestALateIdentityIsNoNewServer(t *testing.T) {
	n := &notices{calls: newCalls(), addr: "a"}
	told := recordNotices(n.calls)
	is := func(id string, links int64) {
		n.identified(redis.NewStringResult("# Server\r\nrun_id:"+id+"\r\n", nil), links)
	}
	is("old", 1)
	is("new", 2)
	is("old", 1)
	is("new", 3)
	assert.Equal(t, []string{"0 changed a: run_id old is now new"}, *told)

	n.links.Store(4)
	n.identified(redis.NewStringResult("# Server\r\n", nil), 4)
	answer, _ := n.identify(t.Context(), nil, false)
	assert.Nil(t, answer, "a server without a run_id is not asked again")
	assert.Len(t, *told, 1)
}
