package schedule_test

import (
	"bytes"
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

func TestStatsPrintInOneLine(t *testing.T) {
	stats := schedule.Stats{
		Pending: 1, Fired: 2, Panics: 3, Wakeups: 4,
		LateMean: 1234567, LateMax: 98765432109, LongestTask: 42, Running: 0,
	}
	assert.Equal(t, "1 pending, 2 fired, 3 panicked, 4 wakeups, late by 1.235ms (mean) and 1m38.77s (max), "+
		"longest task 42ns, running for 0s", stats.String())

	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("engine", "stats", stats)
	assert.Contains(t, log.String(), "stats.pending=1 stats.fired=2 stats.panics=3 stats.wakeups=4 "+
		"stats.lateMean=1.234567ms stats.lateMax=1m38.765432109s stats.longestTask=42ns stats.running=0s")
	require.Len(t, stats.LogValue().Group(), reflect.TypeFor[schedule.Stats]().NumField(), "a field is missing")
}
