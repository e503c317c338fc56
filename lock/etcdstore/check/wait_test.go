package check

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lateWatcher calls before, if that is set, when a watch is asked for, and reports the revisions at which
// watches begin and how their contexts ended.
type lateWatcher struct {
	clientv3.Watcher
	before func()
	began  chan int64
	ended  chan error
}

func (w *lateWatcher) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	if before := w.before; before != nil {
		w.before = nil
		before()
	}
	w.began <- clientv3.OpGet(key, o...).Rev()
	context.AfterFunc(ctx, func() { w.ended <- ctx.Err() })
	return w.Watcher.Watch(ctx, key, o...)
}

// TestAReleaseBeforeTheWatch releases a lock after the waiter has asked for it, and before its watch
// begins. The waiter asks again because of that, and not because it asks from time to time anyway. The
// watch must not begin at an older revision: a server delays such a watch by up to 100 ms.
func TestAReleaseBeforeTheWatch(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	s := open(t, connect(t, members...))
	held, err := s.Acquire(t.Context(), request("k", "holder:1", 5*time.Minute))
	require.NoError(t, err)

	client := connect(t, members...)
	watcher := &lateWatcher{
		client.Watcher, func() { assert.NoError(t, s.Release(t.Context(), held)) },
		make(chan int64, 100), make(chan error, 100),
	}
	client.Watcher = watcher
	_, err = open(t, client).Wait(t.Context(), request("k", "waiter:1", 5*time.Minute), func() {})
	require.NoError(t, err)
	assert.Zero(t, <-watcher.began)
	require.ErrorIs(t, <-watcher.ended, context.Canceled)
}
