// Package logging holds the rules for loggers that all packages of this module follow:
//
//   - A nil logger means slog.Default() at the time of each record, so that a later
//     slog.SetDefault counts. A slog.DiscardHandler silences a package.
//   - No message floods a log. A message about one lease, lock or task is written at most
//     100 times a minute. A message about a condition that lasts is written at most once a
//     minute.
//   - Nobody waits for a logger, which is code of the user and may block for ever. Records
//     go into a bounded queue. A record that does not fit is dropped and counted.
package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Window is the time for which the records of a message are counted.
const Window = time.Minute

const (
	maxEvents     = 100 // records of one event in a window
	maxConditions = 1   // records of one condition in a window
)

// New returns a logger that follows the rules and writes to l, which may be nil. It returns
// l itself if New made it, so that the parts of a client share their limits and their queue.
func New(l *slog.Logger) *slog.Logger { return newLogger(l, new(limits)) }

// PerProcess is like New, but all loggers that it returns share their limits.
func PerProcess(l *slog.Logger) *slog.Logger {
	if h, ok := handlerOf(l); ok {
		return slog.New(&handler{h.to, &perProcess, h.queue})
	}
	return newLogger(l, &perProcess)
}

var perProcess limits

func newLogger(l *slog.Logger, shared *limits) *slog.Logger {
	if _, ok := handlerOf(l); ok {
		return l
	}
	return slog.New(&handler{l, shared, new(queue)})
}

func handlerOf(l *slog.Logger) (*handler, bool) {
	if l == nil {
		return nil, false
	}
	h, ok := l.Handler().(*handler)
	return h, ok
}

// Condition writes a warning about a condition that lasts to a logger of New.
func Condition(l *slog.Logger, msg string, attrs ...slog.Attr) {
	l.LogAttrs(context.WithValue(context.Background(), conditionKey{}, true), slog.LevelWarn, msg, attrs...)
}

type conditionKey struct{}

// handler passes records on to a logger, within the limits.
type handler struct {
	to *slog.Logger // nil means slog.Default()
	*limits
	queue *queue
}

func (h *handler) next() slog.Handler {
	if h.to == nil {
		return slog.Default().Handler()
	}
	return h.to.Handler()
}

// Enabled implements slog.Handler. The goroutine of the queue asks the user's handler.
func (h *handler) Enabled(context.Context, slog.Level) bool { return h.next() != slog.DiscardHandler }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{slog.New(h.next().WithAttrs(attrs)), h.limits, h.queue}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{slog.New(h.next().WithGroup(name)), h.limits, h.queue}
}

// Handle implements slog.Handler. The last record of a message in a window states that
// further ones are omitted. The next one counts those that were.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	limit := maxEvents
	if ctx.Value(conditionKey{}) != nil {
		limit = maxConditions
	}
	n, omitted := h.count(r.Message, limit)
	if n > limit {
		return nil
	}
	if limit > 1 && (omitted > 0 || n == limit) {
		r = r.Clone()
		if omitted > 0 {
			r.AddAttrs(slog.Int("omittedBefore", omitted))
		}
		if n == limit {
			r.AddAttrs(slog.String("note", "further records of this kind are omitted for up to a minute"))
		}
	}
	h.queue.add(queued{h.next(), ctx, r})
	return nil
}

// limits counts records by their messages, which are constants.
type limits struct {
	mu    sync.Mutex // guards rates
	rates map[string]*rate
}

type rate struct {
	start   time.Time // of the window
	written int       // in the window
	omitted int       // since the last record that was written
}

// count counts a record. It returns the number of the record in its window, and how many
// were omitted before it. A number above the limit means that the record is omitted.
func (l *limits) count(msg string, limit int) (n, omitted int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rates[msg]
	if r == nil {
		r = new(rate)
		if l.rates == nil {
			l.rates = make(map[string]*rate)
		}
		l.rates[msg] = r
	}
	if age := now.Sub(r.start); age < 0 || age >= Window {
		r.start, r.written = now, 0
	}
	if r.written >= limit {
		r.omitted++
		return limit + 1, 0
	}
	omitted, r.omitted = r.omitted, 0
	r.written++
	return r.written, omitted
}

// DisownWheel makes a *wheel.Wheel not report that it was dropped. A client whose wheel it
// is reports its own drop instead. Package wheel sets it.
var DisownWheel func(w any)
