// Run, the loop of a candidate.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/schedule"
)

// Pauses of Run between a failure and the next campaign. A term that lasted longPause makes
// the next pause a first one again.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
)

// Run campaigns, calls lead while it leads, and resigns when lead has returned. It repeats this
// until lead has done its work or ctx ends. The ctx of lead ends when the leadership is lost, ctx
// ends or the client is closed. lead must then return: Run does nothing while lead runs.
//
//	lead returns            Run
//	nil, while it leads     resigns and returns nil: the work is done
//	an error, meanwhile     logs it, resigns, and campaigns again after a pause
//	after a loss            campaigns again after a pause, whatever lead returned
//	after the end of ctx    resigns and returns the cause of ctx, and the error of lead
//	                        if that is another one
//	after Close             returns ErrClosed
//	never, by a panic       resigns; the panic goes on
//
// A campaign that fails is also logged and repeated after a pause. Pauses grow from 100 ms to 10 s.
// Run returns a permanent error at once, such as ErrWrongType, ErrClosed, or that of a bad key,
// name or Terms.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, leadership *Held) error) error {
	switch {
	case !e.ok():
		return errZeroLock
	case ctx == nil:
		return failed("run", e.key, basic.ErrNilContext)
	case lead == nil:
		return failed("run", e.key, errors.New("the function is nil"))
	}
	if _, err := e.acquire(ctx, true, onlyChecks); err != nil {
		return err
	}
	backoff := exponentialBackoff(firstPause, longPause)
	for failures := 0; ; failures++ {
		again, lasted, err := e.runTerm(ctx, lead)
		if !again {
			return err
		}
		if lasted >= longPause {
			failures = 0
		}
		pause := backoff(failures)
		e.client.logger.Warn("lock: election: campaign again after an error",
			slog.String("key", e.key), slog.Duration("pause", pause), slog.Any("error", err))
		call, stop := e.client.whileOpen(ctx)
		slept := basic.Sleep(call, pause)
		stop()
		if slept != nil {
			return e.ended(ctx, nil)
		}
	}
}

// runTerm campaigns and leads for one term. It returns whether Run goes on, how long the
// term lasted, and the error that Run returns or logs.
func (e *Election) runTerm(ctx context.Context, lead func(context.Context, *Held) error) (again bool, lasted time.Duration, err error) {
	held, err := e.Campaign(ctx)
	switch {
	case err != nil && e.client.ended(ctx) != nil:
		return false, 0, e.ended(ctx, nil)
	case err != nil:
		return !endsRun(err), 0, err
	}
	began := time.Now()
	err, resigned := runHeld(ctx, held, lead)
	lasted = time.Since(began)
	lost := resigned
	if end := endOf(held.Err()); end == endLost || end == endClosed { // also if lead has called Unlock
		lost = held.Err()
	}
	switch {
	case e.client.ended(ctx) != nil:
		logRelease(held, resigned)
		return false, lasted, e.ended(ctx, err)
	case endOf(lost) == endClosed: // the store or the engine is closed
		return false, lasted, lost
	case endOf(lost) == endLost:
		return true, lasted, cmp.Or(err, lost)
	}
	logRelease(held, resigned)
	return err != nil, lasted, err
}

// endsRun reports whether another campaign would fail as this one did.
func endsRun(err error) bool {
	v := driver.VerdictOf(err)
	return v.IsFinal() && v != driver.Taken && v != driver.Refused || isAny(err, ErrHeldByContext, schedule.ErrClosed)
}

// ended returns the error of a Run whose ctx or client has ended. err is that of lead.
func (e *Election) ended(ctx context.Context, err error) error {
	cause := e.client.ended(ctx)
	if err != nil && !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", basic.Unprefixed(cause), basic.Unprefixed(err))
	}
	return failed("run", e.key, cause)
}
