package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made is a run of two rounds of the row "replace". The second round was slow for
// all.
func made() *results {
	r := &results{About: about{Rounds: 2}}
	for round, slow := range []float64{1, 3} {
		for peer, ns := range map[string]float64{"wheel": 100, "std": 200, "antlabs": 150, "russellluo": 160, netty: 80} {
			r.Samples = append(r.Samples, sample{job{peer, round, replaceOf}, values{"cpu": ns * slow}})
		}
	}
	return r
}

func rowOf(t *testing.T, id string) row {
	for _, w := range rows {
		if w.ID == id {
			return w
		}
	}
	require.Fail(t, "no row "+id)
	return row{}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	r := made()
	w := rowOf(t, "replace")
	ratio, ok := r.ratio(w, "wheel", "std")
	assert.True(t, ok)
	assert.InDelta(t, 0.5, ratio, 1e-9)
	rival, ok := r.rival(w)
	assert.True(t, ok)
	assert.Equal(t, "antlabs", rival)
	_, ok = r.ratio(w, "wheel", "rfyiamcool")
	assert.False(t, ok)
}

func TestAMissedGoalShows(t *testing.T) {
	assert.Contains(t, made().goals(), "| 200 ns |  | 0.50 (≤ 0.60) | **0.67** (≤ 0.62) antlabs | **1.25** (≤ 1.00) | **no** |")
}

func TestRunsAreJoined(t *testing.T) {
	r := made()
	r.add(made())
	assert.Equal(t, 4, r.About.Rounds)
	figure, ok := r.figure(rowOf(t, "replace"), "std")
	assert.True(t, ok)
	assert.InDelta(t, 400, figure, 1e-9)
}

func TestPeersTakeTurns(t *testing.T) {
	s := settings{rounds: 2, rows: []string{"replace", "fire"}, peers: []string{"wheel", "antlabs"}}
	var got []string
	for _, j := range s.plan() {
		if j.Spec.Work == "replace" {
			got = append(got, j.Peer)
		}
		if j.Spec.Tick == fineTick {
			assert.NotEqual(t, "antlabs", j.Peer, "its tick is 10 ms")
		}
	}
	assert.Equal(t, []string{"wheel", "antlabs", "antlabs", "wheel"}, got)
}

func TestLatenessIsExactTo6Percent(t *testing.T) {
	for d := time.Microsecond; d < time.Hour; d += d/7 + 1 {
		got := upper(bucketOf(int64(d)))
		assert.GreaterOrEqual(t, got, d)
		assert.LessOrEqual(t, got, d+d/15+time.Microsecond)
	}
}

func TestThePageIsWritten(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, "BENCHMARKS.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"+reportBegins+"old"+reportEnds+"\nafter\n"), 0o600))
	require.NoError(t, made().document(docs))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^before\n.*0\.67.*after\n$`, string(text))
	assert.NotContains(t, string(text), "old")
	assert.FileExists(t, filepath.Join(docs, "bench", "replace-reset.svg"))
	again, err := load([]string{filepath.Join(docs, "bench", "results.json")})
	require.NoError(t, err)
	assert.Equal(t, made().goals(), again.goals())
}
