package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestOneReplicaRunsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
		defer cancel()
		var out exampletest.Output
		require.NoError(t, run(ctx, []string{"-every", "2s"}, &out))
		leader, _, _ := strings.Cut(out.String(), ": leads\n")
		assert.Equal(t, 10, strings.Count(out.String(), ": runs the job of "), out.String())
		assert.Equal(t, 10, strings.Count(out.String(), leader+": runs the job of "), out.String())
	})
}

func TestAnotherReplicaLeadsWhenTheLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(memstore.New(), nil)
		require.NoError(t, err)
		defer client.Close(context.Background())
		var out exampletest.Output
		start := func(name string) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			r := newReplica(client, name, 2*time.Second, &out)
			go func() { assert.NoError(t, r.run(ctx, client)) }()
			synctest.Wait()
			return cancel
		}
		stopA := start("a")
		stopB := start("b")
		time.Sleep(5 * time.Second)
		stopA()
		time.Sleep(4 * time.Second)
		stopB()
		synctest.Wait()
		assert.Equal(t, "a: leads\n"+
			"a: runs the job of 00:00:02\na: runs the job of 00:00:04\n"+
			"a: leads no longer\nb: leads\n"+
			"b: runs the job of 00:00:06\nb: runs the job of 00:00:08\n"+
			"b: leads no longer\n", out.String())
	})
}

// The TTL is so long that another process can lead only if the first one resigns.
func TestASignalEndsTheLeadership(t *testing.T) {
	args := []string{"-redis", "redis://" + testredis.Start(t).Addr(), "-replicas", "1", "-ttl", "1h"}
	leader := exampletest.Start(t, args...)
	leader.WaitFor(": leads")
	candidate := exampletest.Start(t, args...)
	leader.WaitFor(": runs the job of ")
	assert.Contains(t, leader.Terminate(), ": leads no longer\n")
	candidate.WaitFor(": runs the job of ")
	assert.Contains(t, candidate.Terminate(), ": leads no longer\n")
}

// A new leader whose clock is behind starts the job of the last leader a second time.
func TestAJobRunsOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(memstore.New(), nil)
		require.NoError(t, err)
		defer client.Close(context.Background())
		var out exampletest.Output
		runAs := func(name string) {
			r := newReplica(client, name, 2*time.Second, &out)
			assert.NoError(t, client.Election("cron", name).Run(t.Context(), func(ctx context.Context, held *lock.Held) error {
				return r.runOnce(ctx, held, time.Now())
			}))
		}
		runAs("a")
		time.Sleep(time.Second)
		runAs("b")
		assert.Equal(t, 1, strings.Count(out.String(), ": runs the job of "), out.String())
		time.Sleep(time.Second)
		runAs("b")
		assert.Equal(t, 2, strings.Count(out.String(), ": runs the job of "), out.String())
	})
}

// schedules is how many schedules of faults a test plays.
const schedules = 100

// jobs is the output of a replica. It writes to the resource at each run of the job.
type jobs struct{ *faulttest.Resource }

func (j jobs) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "runs the job") {
		_ = j.Resource.Write(context.Background())
	}
	return len(line), nil
}

func TestFaults(t *testing.T) {
	faulttest.Run(t, schedules, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		return newReplica(client, "a", 20*time.Second, jobs{r}).run(ctx, client)
	})
}
