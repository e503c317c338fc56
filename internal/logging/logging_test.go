package logging_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	logging.Flush(t.Context(), l)
	slog.SetDefault(textLogger(&second))
	logging.Condition(l, "two")
	logging.Flush(t.Context(), l)
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
		synctest.Wait()
		assert.Equal(t, 100, strings.Count(out.String(), "msg=many"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=late"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=other"))
		assert.Equal(t, 1, strings.Count(out.String(), "are omitted"), "the last record says that others follow")

		out.Reset()
		time.Sleep(time.Minute)
		l.Warn("many")
		l.Warn("many")
		logging.Condition(l, "late")
		synctest.Wait()
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
	logging.Flush(t.Context(), l)
	assert.Equal(t, 100, strings.Count(out.String(), "msg=many"))
	assert.Contains(t, out.String(), "part=1 g.a=2")
}

// All loggers of PerProcess share their limits.
func TestALimitPerProcess(t *testing.T) {
	var out, other strings.Builder
	first, second := logging.PerProcess(textLogger(&out)), logging.PerProcess(logging.New(textLogger(&other)))
	logging.Condition(first, "only here")
	logging.Condition(second, "only here")
	logging.Flush(t.Context(), first)
	logging.Flush(t.Context(), second)
	assert.Equal(t, 1, strings.Count(out.String(), "only here"))
	assert.Empty(t, other.String())
}

// A handler that blocks holds up no caller. What does not fit into the queue is dropped and counted,
// and the rest is written in order, by one goroutine.
func TestAHandlerThatBlocksHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		blocked := make(chan struct{})
		l := logging.New(slog.New(blockingHandler{slog.NewTextHandler(&out, nil), blocked}))
		for i := range 600 {
			l.Warn(fmt.Sprint("record ", i))
		}
		start := time.Now()
		logging.Flush(t.Context(), l)
		assert.Equal(t, time.Second, time.Since(start), "the longest wait of Flush")
		assert.Positive(t, logging.Dropped(l))

		close(blocked)
		logging.Flush(t.Context(), l)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		assert.EqualValues(t, 600, uint64(len(lines))+logging.Dropped(l))
		assert.Contains(t, lines[0], `msg="record 0"`)
		last := -1
		for _, line := range lines { // one that is dropped may be followed by one that fits
			_, number, _ := strings.Cut(strings.TrimSuffix(line, `"`), "record ")
			i, err := strconv.Atoi(number)
			require.NoError(t, err)
			assert.Greater(t, i, last)
			last = i
		}
	})
}

// blockingHandler is a handler whose records wait until a channel is closed.
type blockingHandler struct {
	slog.Handler
	until chan struct{}
}

func (h blockingHandler) Handle(ctx context.Context, r slog.Record) error {
	<-h.until
	return h.Handler.Handle(ctx, r)
}

// A handler that panics or ends its goroutine loses its own record only, and ends no process.
func TestAHandlerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := logging.New(slog.New(failingHandler{slog.NewTextHandler(&out, nil)}))
		l.Warn("exit")
		l.Warn("panic")
		l.Warn("next")
		logging.Flush(t.Context(), l)
		assert.Contains(t, out.String(), "msg=next")
		assert.EqualValues(t, 2, logging.Dropped(l))
	})
}

type failingHandler struct{ slog.Handler }

func (h failingHandler) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "exit":
		runtime.Goexit()
	case "panic":
		panic(r.Message)
	}
	return h.Handler.Handle(ctx, r)
}
