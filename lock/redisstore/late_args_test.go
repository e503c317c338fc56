package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// A request whose ctx ends while it waits for a connection is still sent when there is one.
// Requests that were made meanwhile must not have changed its arguments.
func TestALateRequestKeepsItsArguments(t *testing.T) {
	t.Parallel()
	const calls = 4
	var mu sync.Mutex
	var sent []string
	w := &testredis.Wire{Answer: func(command []string) string {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, command[3]+" "+command[8])
		return "*2\r\n:1\r\n$1\r\n7\r\n"
	}}
	connected := make(chan struct{})
	rdb := w.Client(t, redis.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-connected
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	s := newStore(t, rdb, &Options{Timeout: time.Minute})
	var want []string
	for i := range calls {
		r := driver.Request{Key: fmt.Sprint("k", i), Owner: fmt.Sprintf("c:%d", i), TTL: time.Minute}
		want = append(want, s.lockKey(r.Key)+" "+r.Owner)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // a pipeline has taken the request by then
		var err error
		if i%2 == 0 {
			_, err = s.Acquire(ctx, r)
		} else {
			err = s.Release(ctx, driver.Lease{Request: r})
		}
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	close(connected)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(sent) == calls
	}, soon, time.Millisecond)
	assert.ElementsMatch(t, want, sent)
}
