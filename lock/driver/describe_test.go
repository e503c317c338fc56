package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestModes(t *testing.T) {
	some, none := driver.ModesOf(driver.Exclusive, driver.Members), driver.ModesOf()
	for m := range driver.Mode(255) {
		assert.Equal(t, m == driver.Exclusive || m == driver.Members, some.Has(m), m)
		assert.False(t, none.Has(m), m)
	}
}
