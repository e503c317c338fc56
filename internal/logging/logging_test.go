package logging_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/logging"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func textLogger(out *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }

// A nil logger means the default logger of the moment, not that of New.
func TestANilLoggerIsTheDefaultOfTheMoment(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	l := logging.New(nil)
	var first, second strings.Builder
	slog.SetDefault(textLogger(&first))
	l.Warn("one", "key", "a")
	slog.SetDefault(textLogger(&second))
	logging.Condition(l, "two")
	assert.Contains(t, first.String(), "level=WARN msg=one key=a\n")
	assert.NotContains(t, first.String(), "two")
	assert.Contains(t, second.String(), "level=WARN msg=two\n")
}

func TestDiscardHandlerSilences(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	var out strings.Builder
	slog.SetDefault(textLogger(&out))
	logging.New(slog.New(slog.DiscardHandler)).Error("one")
	assert.Empty(t, out.String())
}

// Each message has its own limit, and each minute a new one.
func TestTheRateOfAMessageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := logging.New(textLogger(&out))
		for range 250 {
			l.Warn("many")
			logging.Condition(l, "late")
		}
		l.Warn("other")
		assert.Equal(t, 100, strings.Count(out.String(), "msg=many"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=late"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=other"))
		assert.Equal(t, 1, strings.Count(out.String(), "are omitted"), "the last record says that others follow")

		out.Reset()
		time.Sleep(time.Minute)
		l.Warn("many")
		l.Warn("many")
		logging.Condition(l, "late")
		assert.Equal(t, 2, strings.Count(out.String(), "msg=many"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=late"))
		assert.Equal(t, 1, strings.Count(out.String(), "omittedBefore=150"))
		assert.Equal(t, 1, strings.Count(out.String(), "omittedBefore"))
	})
}

// The parts of a client share one logger and its limits.
func TestALoggerIsWrappedOnce(t *testing.T) {
	var out strings.Builder
	l := logging.New(textLogger(&out))
	assert.Same(t, l, logging.New(l))
	for range 60 {
		logging.New(l).Warn("many")
		l.With("part", 1).WithGroup("g").Warn("many", "a", 2)
	}
	assert.Equal(t, 100, strings.Count(out.String(), "msg=many"))
	assert.Contains(t, out.String(), "part=1 g.a=2")
}

// All loggers of PerProcess share their limits.
func TestALimitPerProcess(t *testing.T) {
	var out, other strings.Builder
	logging.Condition(logging.PerProcess(textLogger(&out)), "only here")
	logging.Condition(logging.PerProcess(logging.New(textLogger(&other))), "only here")
	assert.Equal(t, 1, strings.Count(out.String(), "only here"))
	assert.Empty(t, other.String())
}
