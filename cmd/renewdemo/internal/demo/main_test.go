package demo

import (
	"context"
	"flag"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// runDemo runs the demo with the given flags in virtual time and returns its output. A nil
// store means a store in memory.
func runDemo(t *testing.T, store driver.Store, args ...string) (output string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, parseErr := parse(args, io.Discard)
		require.NoError(t, parseErr)
		var out strings.Builder
		s := &screen{&out}
		if store == nil {
			err = run(t.Context(), c, s)
		} else {
			err = runOn(t.Context(), &backend{Store: store, Name: "a test", Disconnect: func() {}}, c, s)
		}
		output = out.String()
	})
	return output, err
}

func TestTheDemoHoldsAllLeases(t *testing.T) {
	for _, engine := range []string{"wheel", "heap"} {
		out, err := runDemo(t, nil, "-engine", engine, "-leases", "500", "-for", "65s")
		require.NoError(t, err)
		assert.Contains(t, out, "held 500 of 500 leases")
		assert.Contains(t, out, "no lease was lost")
		assert.Equal(t, 1, strings.Count(out, "renewals/s"), "one line of column names")
	}
}

// forgetful is a store that reports one key as lost.
type forgetful struct {
	driver.Store
	key string
}

func (f *forgetful) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	err := f.Store.Renew(ctx, batch, out)
	for i, l := range batch {
		if strings.HasSuffix(l.Key, f.key) {
			out[i] = renewal.Lost
		}
	}
	return err
}

func TestTheDemoFailsIfALeaseIsLost(t *testing.T) {
	out, err := runDemo(t, &forgetful{memstore.New(), ":7"}, "-leases", "20", "-for", "20s")
	require.ErrorContains(t, err, "1 leases were lost: the store denied 1")
	assert.Contains(t, out, "held 19 of 20")
}

func TestFlags(t *testing.T) {
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, config{engine: "wheel", leases: 10_000, ttl: 6 * time.Second, length: 15 * time.Second}, c)
	for want, args := range map[string][]string{
		"-engine must":   {"-engine", "cog"},
		"-leases must":   {"-leases", "0"},
		"-for must":      {"-for", "1ms"},
		"-http does not": {"-http", "localhost:0", "-proof"},
		"at least 1s":    {"-proof", "-ttl", "500ms"},
		"unexpected":     {"extra"},
		"not defined":    {"-nonsense"},
	} {
		var out strings.Builder
		_, err := parse(args, &out)
		require.Error(t, err)
		assert.Contains(t, out.String(), want)
	}
	var help strings.Builder
	_, err = parse([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"-engine", "-leases", "-ttl", "-for", "-store", "-proof", "-http"} {
		assert.Contains(t, help.String(), name)
	}
}

func TestABadURLIsShownWithoutItsPassword(t *testing.T) {
	c, err := parse([]string{"-store", "redis://user:canary@[bad"}, io.Discard)
	require.NoError(t, err)
	err = run(t.Context(), c, &screen{w: io.Discard})
	require.ErrorContains(t, err, "-store")
	assert.NotContains(t, err.Error(), "canary")
}

// The demo shows what its store can do, not what the store of the faults lets pass.
func TestTheStoreWithFaultsCanDoWhatItsStoreCan(t *testing.T) {
	b := openMemory()
	w := newFaultStore(b)
	assert.Equal(t, b.Describe(), w.Describe())
	require.NoError(t, w.Shutdown(t.Context()))
}
