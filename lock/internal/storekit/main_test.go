package storekit

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// yes is a store that answers yes to everything.
type yes struct{ driver.Base }

func (*yes) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	return driver.Lease{Request: r}, nil
}

func (*yes) Renew(_ context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}
func (*yes) Release(context.Context, driver.Lease) error { return nil }
