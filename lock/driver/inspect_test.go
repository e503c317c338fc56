package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestClientNamesHideOwners(t *testing.T) {
	// The first digits of the SHA-256 of "abc".
	const abc = "ba7816bf8f01cfea"
	for owner, name := range map[string]string{"abc:secret": abc, "abc:": abc, "abc": abc, "abc:x:y": driver.ClientName("abc:x:z"), "": "e3b0c44298fc1c14"} {
		assert.Equal(t, name, driver.ClientName(owner), owner)
	}
	assert.NotEqual(t, abc, driver.ClientName("abc:x:y"), "only the part behind the last colon is a secret")
}
