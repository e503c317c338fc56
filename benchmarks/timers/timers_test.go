package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each sample of each Go peer runs through, with few timers. Speeds are not
// looked at.
func TestSamples(t *testing.T) {
	for _, p := range peers {
		for work, keys := range map[string][]string{
			"ops":     {"hot.cpu", "near.wall", "par.wall", "par.added", "hot.bytes"},
			"replace": {"cpu", "bytes"},
			"reset":   {"cpu", "bytes"},
			"memory":  {"bytes", "gc"},
			"idle":    {"core", "wakes"},
		} {
			t.Run(p.name+"/"+work, func(t *testing.T) {
				s := spec{Work: work, Pending: 1000, For: 2 * time.Millisecond}
				v, err := p.run(s.forPeer(p.name))
				require.NoError(t, err)
				for _, key := range keys {
					assert.Contains(t, v, key)
				}
			})
		}
	}
}
