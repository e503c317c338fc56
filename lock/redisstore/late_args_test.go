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

// A request whose ctx ends while it waits for a connection is not sent when there is one.
func TestALateRequestIsNotSent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	w := &testredis.Wire{Answer: func(command []string) string {
		if len(command) > 8 {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, command[3]+" "+command[8])
		}
		return "*2\r\n:1\r\n$1\r\n7\r\n"
	}}
	connected := make(chan struct{})
	rdb := w.Client(t, redis.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-connected
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	s := newStore(t, rdb, &Options{Timeout: time.Minute})
	for i := range 4 {
		r := driver.Request{Key: fmt.Sprint("k", i), Owner: fmt.Sprintf("c:%d", i), TTL: time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
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
	last := request("last")
	acquire := func() string {
		_, err := s.Acquire(t.Context(), last)
		require.NoError(t, err)
		return s.lockKey(last.Key) + " " + last.Owner
	}
	want := acquire()
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{want}, sent)
}
