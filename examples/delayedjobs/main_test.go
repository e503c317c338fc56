package main

import (
	"context"
	"io"
	"log"
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

func TestJobsRunInOrderAndAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var out exampletest.Output
		require.NoError(t, run(ctx, []string{"-workers", "1"}, &out))
		assert.Equal(t, "done: charge a card\n"+
			"done: resize an image\n"+
			"again in 2s: send a receipt: the mail server is busy\n"+
			"again in 4s: send a receipt: the mail server is busy\n"+
			"done: send a receipt\n"+
			"left: delete the account, due in 23h59m0s\n", out.String())
	})
}

// serve runs a job and returns the output. It calls during a moment after the start.
func serve(t *testing.T, j *job, during func(client *lock.Client)) string {
	client, err := lock.New(memstore.New(), nil)
	require.NoError(t, err)
	defer client.Close(context.Background())
	var out exampletest.Output
	s := &service{client: client, log: log.New(&out, "", 0)}
	require.NoError(t, s.push(j, time.Now().Add(time.Second), 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	go during(client)
	s.work(ctx)
	assert.Zero(t, s.jobs.Len())
	return out.String()
}

func TestAJobWaitsForItsCustomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := serve(t, &job{name: "job", customer: "bob", do: succeed}, func(client *lock.Client) {
			held, err := client.Mutex("customer/bob").Lock(t.Context())
			assert.NoError(t, err)
			time.Sleep(1500 * time.Millisecond)
			assert.NoError(t, held.Unlock(t.Context()))
		})
		assert.Regexp(t, `^again in 1s: job: lock: "customer/bob".*\ndone: job\n$`, out)
	})
}

func TestAJobIsGivenUpAfterFiveAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := serve(t, &job{name: "job", customer: "bob", do: failFirst(5)}, func(*lock.Client) {})
		assert.Regexp(t, `^(again in \d+s: job: .*\n){4}given up: job: the mail server is busy\n$`, out)
	})
}

func TestASignalLeavesTheOtherJobs(t *testing.T) {
	for _, args := range [][]string{nil, {"-redis", "redis://" + testredis.Start(t).Addr()}} {
		p := exampletest.Start(t, args...)
		p.WaitFor("done: charge a card")
		p.WaitFor("done: resize an image")
		assert.Contains(t, p.Terminate(), "left: delete the account, due in 24h0m0s\n")
	}
}

// schedules is how many schedules of faults a test plays.
const schedules = 300

// jobs returns a function that runs three jobs of one customer. Each takes some time before its write.
func jobs(write func(ctx context.Context, r *faulttest.Resource) error) func(context.Context, *lock.Client, *faulttest.Resource) error {
	return func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		s := &service{client: client, log: log.New(io.Discard, "", 0)}
		do := func(ctx context.Context) error { return write(ctx, r) }
		for i := range 3 {
			if err := s.push(&job{name: "job", customer: "bob", do: do}, time.Now(), i); err != nil {
				return err
			}
		}
		s.work(ctx)
		return nil
	}
}

func TestFaults(t *testing.T) {
	faulttest.Run(t, schedules, jobs(func(ctx context.Context, r *faulttest.Resource) error {
		select {
		case <-time.After(20 * time.Second):
			return r.Write(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
}
