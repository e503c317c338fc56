package check

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// compactionWatcher reports the watches that the server has begun, and how the contexts of those whose
// revision was compacted ended. Unlike those of etcd, its watches do not end before their contexts.
type compactionWatcher struct {
	clientv3.Watcher
	begun chan struct{}
	ended chan error
}

func (w *compactionWatcher) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		compacted := false
		for answer := range w.Watcher.Watch(ctx, key, o...) {
			if answer.Created {
				w.begun <- struct{}{}
			}
			compacted = compacted || errors.Is(answer.Err(), rpctypes.ErrCompacted)
			select {
			case out <- answer:
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		if compacted {
			w.ended <- ctx.Err()
		}
	}()
	return out
}

// The connection of a waiter breaks, and the revision that it watches is compacted before the watch
// goes on. The waiter asks again because of that, and not because it asks from time to time anyway.
func TestACompactionDuringAWait(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s := open(t, client)
	_, err := s.Acquire(t.Context(), request("k", "holder:1", 5*time.Minute))
	require.NoError(t, err)

	link := newLink(t, members[0])
	watching := connect(t, &member{client: "http://" + link.Addr()})
	watcher := &compactionWatcher{watching.Watcher, make(chan struct{}, 100), make(chan error, 100)}
	watching.Watcher = watcher
	w := open(t, watching)
	waited := make(chan error, 1)
	go func() {
		_, err := w.Wait(t.Context(), request("k", "waiter:1", 5*time.Minute), func() {})
		waited <- err
	}()
	require.Eventually(t, func() bool { return waiting(t, s, "k") == 1 }, patience, 5*time.Millisecond)
	compactWhileCut := func() {
		link.Block()
		defer link.Unblock()
		link.Cut()
		var revision int64
		for range 3 {
			put, err := client.Put(t.Context(), "another key", "")
			require.NoError(t, err)
			revision = put.Header.Revision
		}
		_, err := client.Compact(t.Context(), revision)
		require.NoError(t, err)
	}
	for late := 0; ; { // on a busy machine, a watch may end by its time
		require.Less(t, late, 3, "the waiter does not ask again because of a compaction")
		select {
		case <-watcher.begun:
			compactWhileCut()
			continue
		case err := <-watcher.ended:
			if errors.Is(err, context.DeadlineExceeded) {
				late++
				continue
			}
		case <-time.After(patience):
			require.Fail(t, "no watch has met a compaction")
		}
		break
	}
	_, err = client.Delete(t.Context(), lockKey("k"))
	require.NoError(t, err)
	select {
	case err := <-waited:
		assert.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the waiter is not served")
	}
}
