package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// printing returns a runner whose samples print the given values.
func printing(values string) *runner {
	return &runner{self: "unused", wrapper: []string{"sh", "-c", "echo '" + values + "'"}}
}

func TestRunnerNotesFailures(t *testing.T) {
	for _, c := range []struct {
		printed string
		spec    spec
		want    string
	}{
		{`{"setup-delay": 5}`, fireOf(fineTick), "the machine was too busy"},
		{`{"too-slow": 60}`, probeOf(million, 0), "not scheduled in 60 s"},
		{`{"too-large": 8}`, probeOf(million, 0), "needs over 8 GiB"},
		{`not JSON`, probeOf(million, 0), "no result"},
	} {
		var got []sample
		err := printing(c.printed).runAll(t.Context(), []job{{Peer: "wheel", Spec: c.spec}}, func(s sample) error {
			got = append(got, s)
			return nil
		})
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, c.want, got[0].Failed)
		assert.Empty(t, got[0].Values)
	}
	err := printing("not JSON").runAll(t.Context(), []job{{Peer: "wheel", Spec: replaceOf}}, nil)
	require.ErrorContains(t, err, "not JSON")
}

func TestRunnerKeepsValues(t *testing.T) {
	s, err := printing(`{"cpu": 7}`).retry(t.Context(), job{Peer: "wheel", Spec: replaceOf})
	require.NoError(t, err)
	assert.Equal(t, values{"cpu": 7}, s.Values)
	assert.Empty(t, s.Failed)
}
