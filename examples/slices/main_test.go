package main

import (
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

var counted = regexp.MustCompile(`counted rows (\d+) to (\d+)\n`)

// slices returns the first and last rows of the slices that an output shows, without empty ones.
func slices(t *testing.T, out string) (all [][2]int) {
	t.Helper()
	for _, m := range counted.FindAllStringSubmatch(out, -1) {
		first, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		last, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		if first <= last {
			all = append(all, [2]int{first, last})
		}
	}
	return all
}

func TestWorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out exampletest.Output
		require.NoError(t, run(t.Context(), []string{"-slice", "900ms"}, &out))
		assert.Equal(t, [][2]int{{1, 5}, {6, 10}, {11, 15}, {16, 20}}, slices(t, out.String()))
	})
}

func TestProcessesTakeTurns(t *testing.T) {
	server := testredis.Start(t)
	start := func() *exampletest.Process {
		return exampletest.Start(t, "-redis", "redis://"+server.Addr(), "-workers", "1", "-rows", "300", "-slice", "100ms", "-pause", "10ms")
	}
	a, b := start(), start()
	of := [][][2]int{slices(t, a.Wait()), slices(t, b.Wait())}
	rows := make([]int, 301)
	for _, all := range of {
		assert.NotEmpty(t, all, "each process works")
		for _, s := range all {
			for row := s[0]; row <= s[1]; row++ {
				rows[row]++
			}
		}
	}
	for row, n := range rows[1:] {
		assert.Equal(t, 1, n, "row %d", row+1)
	}
}
