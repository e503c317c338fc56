package check

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// A leader checks once that it leads, and then revokes 16 leases at a time. The later ones are most
// likely to be revoked by mistake.
const manySessions = 24

// fleet is stores with a session each, and a lease in each of these.
type fleet struct {
	stores []*etcdstore.Store
	leases []driver.Lease
}

// newFleet acquires all leases at the same time, because nobody renews the first ones meanwhile.
func newFleet(t *testing.T, client *clientv3.Client) *fleet {
	t.Helper()
	f := &fleet{make([]*etcdstore.Store, manySessions), make([]driver.Lease, manySessions)}
	var wg sync.WaitGroup
	for i := range manySessions {
		f.stores[i] = open(t, client)
		wg.Go(func() {
			f.leases[i] = acquire(t, f.stores[i], request(fmt.Sprint("held", i), fmt.Sprint("a:", i), 3*time.Second))
		})
	}
	wg.Wait()
	return f
}

// renew renews all leases at the same time, until a time has passed. A renewal that begins after the
// lock was deleted must say so. It returns the number of leases that are left.
func (f *fleet) renew(t *testing.T, client *clientv3.Client, during time.Duration) (left int) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		out := make([]renewal.Outcome, len(f.leases))
		var wg sync.WaitGroup
		for i, l := range f.leases {
			wg.Go(func() {
				got, err := client.Get(ctx, lockKey(l.Key))
				deleted := err == nil && len(got.Kvs) == 0
				out[i] = renewOnce(ctx, f.stores[i], l)
				assert.False(t, deleted && out[i] == renewal.Renewed, "%s was deleted before its renewal", l.Key)
			})
		}
		wg.Wait()
		cancel()
		left = len(f.leases)
		for _, o := range out {
			if o.IsLost() {
				left--
			}
		}
	}
	return left
}

// A leader that goes on after a pause may revoke leases that its successor has renewed. Two clients
// may hold a lock then, but tokens rise, and the next renewal tells a holder of its loss.
func TestALeaderGoesOnAfterAPause(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	client := connect(t, members...)
	leader, others := leaderOf(t, client, members)
	l := histories.NewLoad(t, faultTTL, newLocks(t, others...), newLocks(t, others...))
	l.Progress()
	client = connect(t, others...)
	f := newFleet(t, client)
	l.Fault(func() { leader.signal(t, testprocess.Stop) })
	before := f.renew(t, client, 6*time.Second) // with a successor, for longer than a TTL
	leader.signal(t, testprocess.Continue)
	after := f.renew(t, client, 10*time.Second) // for longer than a request of the old leader may take
	follows(t, client, leader, others)
	t.Logf("%d of %d leases were revoked", before-after, before)
	l.Progress()
	l.StopWith(histories.Tokens)
}

// follows waits until a member follows one of the others.
func follows(t *testing.T, client *clientv3.Client, m *member, others []*member) {
	t.Helper()
	next, _ := leaderOf(t, connect(t, others...), others)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		of, err := client.Status(ctx, m.client)
		if err != nil {
			return false
		}
		at, err := client.Status(ctx, next.client)
		return err == nil && of.Leader == at.Leader && of.RaftAppliedIndex >= at.RaftAppliedIndex
	}, time.Minute, 20*time.Millisecond)
}
