package main

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItPrintsSpansAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), nil, &out))
		for _, line := range []string{
			`lock acquire +0s +parent \w+ store=memory lock.kind=mutex lock.name=orders outcome=acquired`,
			`lock acquire +100ms +parent \w+ store=memory lock.kind=mutex lock.name=orders waited=true outcome=acquired`,
			`event queued`,
			`event lease lost .*not_owned`,
			`leasewheel.lease.losses .*leasewheel.lock.name=reports.*leasewheel.loss.reason=not_owned.* 1\n`,
		} {
			assert.Regexp(t, line, out.String())
		}
	})
}

func TestABadAddressIsAnError(t *testing.T) {
	require.Error(t, run(t.Context(), []string{"-redis", "nowhere"}, io.Discard))
}
