package redsync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Calls of one mutex on several goroutines may end in another order than their requests.
func TestALateExtendChangesNothing(t *testing.T) {
	m := New().NewMutex("k")
	now := time.Now()
	m.locked("value", now)
	m.extended("an earlier value", now.Add(time.Hour))
	assert.Equal(t, now, m.Until())
	m.extended("value", now.Add(-time.Second))
	assert.Equal(t, now, m.Until())
	m.extended("value", now.Add(time.Second))
	assert.Equal(t, now.Add(time.Second), m.Until())
	assert.Equal(t, "value", m.Value())
}
