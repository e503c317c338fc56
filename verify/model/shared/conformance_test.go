package shared

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

const requests = 60 // of a comparison

// TestScriptsMatchTheReference runs comparisons with many seeds.
func TestScriptsMatchTheReference(t *testing.T) {
	sources, err := readScripts()
	require.NoError(t, err)
	most, limit := uint64(60), time.Minute
	if simreport.IsLong() {
		most, limit = 1<<40, 5*time.Minute
	}
	end := time.Now().Add(limit)
	var seeds atomic.Uint64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			s, err := newServer(sources)
			if !assert.NoError(t, err) {
				return
			}
			defer s.close()
			for seed := seeds.Add(1); seed <= most && time.Now().Before(end) && !t.Failed(); seed = seeds.Add(1) {
				assert.NoError(t, runComparison(s, seed, requests))
			}
		})
	}
	wg.Wait()
	report.Add("%d comparisons of %d operations", min(seeds.Load()-1, most), requests)
}

// TestScriptMutationsAreFound breaks one rule of the scripts at a time. It starts with
// the lowest seed that found the mutation before.
func TestScriptMutationsAreFound(t *testing.T) {
	sources, err := readScripts()
	require.NoError(t, err)
	const most = 400 // seeds
	todo := make(chan scriptMutation, len(scriptMutations))
	for _, m := range scriptMutations {
		todo <- m
	}
	close(todo)
	var wg sync.WaitGroup
	var found, games atomic.Int64
	for range 2 {
		wg.Go(func() {
			for m := range todo {
				mutated, err := m.in(sources)
				if !assert.NoError(t, err) {
					return
				}
				if n := search(t, mutated, m.seed, most); assert.LessOrEqual(t, n, most, m.name) {
					t.Logf("%s: seed %d", m.name, m.seed+uint64(n)-1) //nolint:gosec // it is positive
					found.Add(1)
					games.Add(int64(n))
				}
			}
		})
	}
	wg.Wait()
	report.Add("%d of %d script mutations found with %d seeds", found.Load(), len(scriptMutations), games.Load())
}

// search returns the number of seeds, from the first on, until a comparison fails.
func search(t *testing.T, s scripts, first uint64, most int) int {
	server, err := newServer(s)
	if !assert.NoError(t, err) {
		return most + 1
	}
	defer server.close()
	for n := range most {
		if runComparison(server, first+uint64(n), requests) != nil { //nolint:gosec // it is positive
			return n + 1
		}
	}
	return most + 1
}
