package main

import (
	"context"
	"io"
	"log"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/fence"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// assertMigrated checks that each step was taken once.
func assertMigrated(t *testing.T, out string) {
	t.Helper()
	for _, step := range steps {
		assert.Equal(t, 1, strings.Count(out, ": "+step+"\n"), out)
	}
}

func TestTheReplicasMigrateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out exampletest.Output
		require.NoError(t, run(t.Context(), nil, &out))
		assertMigrated(t, out.String())
		assert.Equal(t, len(steps), strings.Count(out.String(), "\n"), out.String())
	})
}

func TestAReplicaThatLostItsLockIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out exampletest.Output
		require.NoError(t, run(t.Context(), []string{"-stall"}, &out))
		assertMigrated(t, out.String())
		assert.Regexp(t, `replica \d hangs\n`, out.String())
		assert.Regexp(t, `replica \d starts over: .*"schema"`, out.String())
	})
}

func TestTheMigrationOnRedis(t *testing.T) {
	url := "redis://" + testredis.Start(t).Addr()
	assertMigrated(t, exampletest.Start(t, "-redis", url).Wait())
	out := exampletest.Start(t, "-redis", url, "-stall").Wait()
	assertMigrated(t, out)
	assert.Contains(t, out, "starts over")
}

func TestTheDatabaseRefuses(t *testing.T) {
	db := newDatabase()
	require.NoError(t, db.migrate(0, 34))
	require.ErrorIs(t, db.migrate(1, 33), fence.ErrStale)
	require.ErrorContains(t, db.migrate(2, 34), "has version 1, not 2")
	require.NoError(t, db.migrate(1, 34))
}

// schedules is how many schedules of faults a test plays.
const schedules = 1000

// replica returns a function that migrates a database, with a write before each step.
func replica(write func(r *faulttest.Resource, token uint64) error) func(context.Context, *lock.Client, *faulttest.Resource) error {
	return func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		db := newDatabase()
		m := &migration{client: client, db: db, log: log.New(io.Discard, "", 0)}
		m.step = func(version int, token uint64) error {
			if err := write(r, token); err != nil {
				return err
			}
			return db.migrate(version, token)
		}
		return m.replica(ctx, 1)
	}
}

// TestFaults stops the process between the check of its ctx and a step, too.
func TestFaults(t *testing.T) {
	faulttest.RunFenced(t, schedules, replica(func(r *faulttest.Resource, token uint64) error {
		return r.WriteFenced(context.Background(), token)
	}))
}
