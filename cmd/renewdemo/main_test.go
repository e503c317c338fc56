package main

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
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the demo with the given flags in virtual time, on a store in memory
// or on the one that is given, and returns what it printed.
func play(t *testing.T, store lock.Store, args ...string) (output string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, parseErr := parse(args, io.Discard)
		require.NoError(t, parseErr)
		var out strings.Builder
		s := &screen{w: &out}
		if store == nil {
			err = run(t.Context(), c, s)
		} else {
			err = runOn(t.Context(), &backend{Store: store, Closer: io.NopCloser(nil), name: "a test", close: func() {}}, c, s)
		}
		output = out.String()
	})
	return output, err
}

func TestTheDemoHoldsItsLeases(t *testing.T) {
	for _, engine := range []string{"wheel", "heap"} {
		out, err := play(t, nil, "-engine", engine, "-leases", "500", "-for", "65s")
		require.NoError(t, err)
		assert.Contains(t, out, "held 500 of 500 leases")
		assert.Contains(t, out, "no lease was lost")
		assert.Equal(t, 1, strings.Count(out, "renewals/s"), "the columns are named once")
		assert.NotContains(t, out, "\x1b", "plain lines where there is no terminal")
	}
}

func TestTheDemoProvesItsFaults(t *testing.T) {
	for _, engine := range []string{"wheel", "heap"} {
		out, err := play(t, nil, "-engine", engine, "-leases", "500", "-fault", "steal", "-steal", "37")
		require.NoError(t, err)
		assert.Contains(t, out, "held 463 of 500")
		assert.Contains(t, out, "exactly the 37 holders")

		out, err = play(t, nil, "-engine", engine, "-leases", "500", "-fault", "hang")
		require.NoError(t, err)
		assert.Contains(t, out, "held 0 of 500")
		assert.Contains(t, out, "every holder was told")

		out, err = play(t, nil, "-engine", engine, "-leases", "500", "-fault", "errors")
		require.NoError(t, err)
		assert.Contains(t, out, "held 500 of 500")
		assert.Contains(t, out, "calls failed by injection")
	}
}

// forgetful is a store that says once of a key that it is lost.
type forgetful struct {
	lock.Store
	key string
}

func (f *forgetful) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	err := f.Store.Renew(ctx, batch, out)
	for i, l := range batch {
		if strings.HasSuffix(l.Key, f.key) {
			out[i] = renewal.Lost
		}
	}
	return err
}

func TestTheDemoFailsIfALeaseIsLost(t *testing.T) {
	out, err := play(t, &forgetful{memstore.New(), ":7"}, "-leases", "20", "-for", "20s")
	require.ErrorContains(t, err, "1 leases were lost that should have lived")
	assert.Contains(t, out, "held 19 of 20")
}

// generous is a store that renews what it has not.
type generous struct{ lock.Store }

func (generous) Renew(_ context.Context, _ []lock.Lease, out []renewal.Outcome) error {
	for i := range out {
		out[i] = renewal.Renewed
	}
	return nil
}

func TestTheDemoFailsIfALossIsNotTold(t *testing.T) {
	mem := memstore.New()
	synctest.Test(t, func(t *testing.T) {
		c, err := parse([]string{"-leases", "20", "-fault", "steal", "-steal", "5"}, io.Discard)
		require.NoError(t, err)
		b := &backend{Store: generous{mem}, Closer: mem, delete: func(_ context.Context, keys []string) error {
			for _, key := range keys {
				mem.Delete(key)
			}
			return nil
		}, close: func() {}}
		require.ErrorContains(t, runOn(t.Context(), b, c, &screen{w: io.Discard}), "5 holders were not told")
	})
}

func TestAnInterruptedDemoFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := parse([]string{"-leases", "20"}, io.Discard)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorContains(t, run(ctx, c, &screen{w: io.Discard}), "interrupted")
	})
}

func TestATerminalGetsOneLineThatChanges(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out, terminal: true}
	s.progress("one")
	s.progress("two")
	s.line("done")
	assert.Equal(t, "\r\x1b[Kone\r\x1b[Ktwo\ndone\n", out.String())
}

func TestFlags(t *testing.T) {
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, config{engine: "wheel", leases: 10_000, ttl: 30 * time.Second, length: 15 * time.Second, steal: 137}, c)
	for want, args := range map[string][]string{
		"-engine must":  {"-engine", "cog"},
		"-leases must":  {"-leases", "0"},
		"-for must":     {"-for", "1ms"},
		"-fault must":   {"-fault", "fire"},
		"-steal must":   {"-fault", "steal", "-leases", "5"},
		"twice the TTL": {"-fault", "hang", "-for", "5s"},
		"unexpected":    {"extra"},
		"not defined":   {"-nonsense"},
	} {
		var out strings.Builder
		_, err := parse(args, &out)
		require.Error(t, err)
		assert.Contains(t, out.String(), want)
	}
	var help strings.Builder
	_, err = parse([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"-engine", "-leases", "-ttl", "-for", "-redis", "-fault", "-steal"} {
		assert.Contains(t, help.String(), name)
	}
}

func TestARedisThatIsNotThere(t *testing.T) {
	c, err := parse([]string{"-redis", "redis://user:canary@127.0.0.1:1/0"}, io.Discard)
	require.NoError(t, err)
	err = run(t.Context(), c, &screen{w: io.Discard})
	require.ErrorContains(t, err, "127.0.0.1:1")
	assert.NotContains(t, err.Error(), "canary")

	c, err = parse([]string{"-redis", "redis://user:canary@[bad"}, io.Discard)
	require.NoError(t, err)
	err = run(t.Context(), c, &screen{w: io.Discard})
	require.ErrorContains(t, err, "-redis")
	assert.NotContains(t, err.Error(), "canary")
}
