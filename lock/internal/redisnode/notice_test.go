package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/renewal"
)

// recordChanges returns the changes of servers that a client reports from now on.
func recordChanges(cs *Calls) *[]string {
	var told []string
	cs.ReportEvents(func(e renewal.Event) {
		if e.Kind == renewal.EventServerChanged {
			told = append(told, fmt.Sprintf("%d changed %s", e.Lane, e.Detail))
		}
	})
	return &told
}

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// A server that refuses writes because it is a replica is told.
func TestADemotedServerIsTold(t *testing.T) {
	n := &notices{calls: NewCalls(), addr: "a"}
	told := recordChanges(n.calls)
	for _, err := range []error{
		nil, errors.New("READONLY is no reply of a server"), serverError("ERR unknown command READONLY"), context.DeadlineExceeded,
	} {
		n.noteDemotion(err)
	}
	assert.Empty(t, *told)
	for _, reply := range []string{
		"READONLY You can't write against a read only replica. script: 123, on @user_script:17.",
		"ERR Error running script (call to f_123): @user_script:17: @user_script: 17: -READONLY You can't write against a read only replica.",
		"@user_script: 38: -READONLY You can't write against a read only replica.",
	} {
		n.noteDemotion(serverError(reply))
		assert.Equal(t, []string{"0 changed a: refuses writes, because it is a replica now"}, *told, reply)
		*told = nil
	}
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
	told := recordChanges(c.Calls)
	for range 3 { // the second one asks
		require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	}
	id.Store("")
	require.Error(t, sendBatch(t.Context(), c, "k", 1))
	assert.Empty(t, *told)
	id.Store("b")
	require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	assert.Equal(t, []string{"0 changed " + c.node.addr + ": run_id a is now b"}, *told)
}

// Answers may come in another order than their questions, which may have gone to two servers.
func TestALateIdentityIsNoNewServer(t *testing.T) {
	n := &notices{calls: NewCalls(), addr: "a"}
	told := recordChanges(n.calls)
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
