package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// measured is a row of the table of leases in one process, as the mean of both engines.
type measured struct{ clientCores, serverCores, clientMemory, engines float64 }

// readMeasured reads the published table.
func readMeasured(t *testing.T) map[int]measured {
	t.Helper()
	page, err := os.ReadFile("../../docs/BENCHMARKS.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "<!-- lease-scale -->")
	require.True(t, found)
	table, _, found := strings.Cut(rest, "<!-- end of lease-scale -->")
	require.True(t, found)
	rows := make(map[int]measured)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 9 {
			continue // the goals
		}
		leases, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue // the header
		}
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(strings.TrimSpace(cells[i]), 64)
			require.NoError(t, err, line)
			return n
		}
		r := rows[leases]
		r.clientCores += number(3) * number(4) / 1e6
		r.serverCores += number(3) * number(5) / 1e6
		r.clientMemory += number(7) * float64(leases)
		r.engines++
		rows[leases] = r
	}
	for leases, r := range rows {
		rows[leases] = measured{r.clientCores / r.engines, r.serverCores / r.engines, r.clientMemory / r.engines, 1}
	}
	return rows
}

// The model must not differ from the published measurements by a third.
func TestTheModelOfSizesFitsTheMeasurements(t *testing.T) {
	t.Parallel()
	rows := readMeasured(t)
	for _, leases := range []int{1000, 10_000, 100_000, 1_000_000} {
		require.Contains(t, rows, leases)
		e := load{Leases: leases, ttl: 30 * time.Second, Processes: 1, Masters: 1, KeyLen: measuredKeyLen}.estimate()
		assert.InEpsilon(t, rows[leases].clientCores, e.ClientCores, 1./3, "client of %d", leases)
		assert.InEpsilon(t, rows[leases].serverCores, e.ServerCores, 1./3, "server of %d", leases)
		assert.InEpsilon(t, rows[leases].clientMemory, e.ClientMemory, 1./3, "memory of %d", leases)
	}
}

func TestSizeProposesMasters(t *testing.T) {
	t.Parallel()
	masters := 1
	for leases := 1000; leases <= 100_000_000; leases *= 10 {
		e := load{Leases: leases, ttl: 30 * time.Second, Processes: 1, KeyLen: 20, MetadataLen: 30}.estimate()
		assert.LessOrEqual(t, e.ServerCores, masterShare)
		assert.GreaterOrEqual(t, e.Masters, masters)
		masters = e.Masters
		if e.Masters > 1 {
			fewer := e.load
			fewer.Masters--
			assert.Greater(t, fewer.estimate().ServerCores, masterShare, "%d masters are needed", e.Masters)
		}
	}
	assert.Greater(t, masters, 100)
}
