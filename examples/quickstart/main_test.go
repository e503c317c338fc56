package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schedules is how many schedules of faults a test plays.
const schedules = 300

func TestFaults(t *testing.T) {
	faulttest.Run(t, schedules, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		return work(ctx, client, func(ctx context.Context, _ *lock.Held) error { return r.Write(ctx) })
	})
}

func TestFaultsOfAShipmentThatIgnoresItsCtx(t *testing.T) {
	err := faulttest.Find(t, schedules, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		return work(ctx, client, func(context.Context, *lock.Held) error {
			time.Sleep(20 * time.Second)
			return r.Write(context.Background())
		})
	})
	assert.ErrorContains(t, err, "after the loss of its lock (main_test.go:")
}
