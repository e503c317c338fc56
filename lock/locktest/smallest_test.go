package locktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestTheSmallestStore(t *testing.T) {
	locktest.TestStore(t, locktest.Config{
		New: func(*testing.T) driver.Store { return NewTable() },
		TTL: 40 * time.Second,
		Run: synctest.Test,
	})
}
