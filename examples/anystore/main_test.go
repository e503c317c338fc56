package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
)

var postgres = testprocess.Shared[*testsql.Postgres]{Launch: func() (*testsql.Postgres, error) { return testsql.LaunchPostgres() }}

func TestMain(m *testing.M) { goleak.VerifyTestMain(testprocess.Around(m, &postgres)) }

// TestTheSameWorkOnTwoStores changes nothing but the URL.
func TestTheSameWorkOnTwoStores(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"Redis":      func(t *testing.T) string { return "redis://" + testredis.Start(t).Addr() },
		"PostgreSQL": func(t *testing.T) string { return postgres.Get(t).DSN() },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), []string{"-store", url(t)}, &out))
			assert.Equal(t, "30 jobs done, one at a time\n", out.String())
		})
	}
}

// schedules is how many schedules of faults a test plays.
const schedules = 300

func TestFaults(t *testing.T) {
	faulttest.Run(t, schedules, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		return work(ctx, client, r.Write)
	})
}
