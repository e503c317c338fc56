package crowd

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

const requests = 60 // of a game

// TestTheScriptsFollowTheRules plays games for some time.
func TestTheScriptsFollowTheRules(t *testing.T) {
	sources, err := readScripts()
	require.NoError(t, err)
	most, limit := uint64(1500), time.Minute
	if part.IsLong() {
		most, limit = 1<<40, 15*time.Minute
	}
	end := time.Now().Add(limit)
	var seeds atomic.Uint64
	var wg sync.WaitGroup
	var all counts
	var mu sync.Mutex // guards all
	for range 2 {
		wg.Go(func() {
			s, err := newServer(sources)
			if !assert.NoError(t, err) {
				return
			}
			defer s.close()
			var c counts
			for seed := seeds.Add(1); seed <= most && time.Now().Before(end) && !t.Failed(); seed = seeds.Add(1) {
				assert.NoError(t, play(s, seed, requests, &c))
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(c)
		})
	}
	wg.Wait()
	report.Add("%d games of %d requests", min(seeds.Load()-1, most), requests)
	report.Add("%+v", all)
}
