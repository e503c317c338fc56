package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// explainTimeout bounds the request that explains an ErrWrongType.
const explainTimeout = time.Second

// explained names the kind of lock that stands in the way of an acquisition that failed
// with ErrWrongType, if the store can tell. It returns any other error as it is.
func (a *acquisition) explained(ctx context.Context, err error) error {
	inspector, ok := a.client.store.(driver.Inspector)
	if !ok || !errors.Is(err, ErrWrongType) || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, explainTimeout, noAnswerError(explainTimeout))
	defer cancel()
	info, failure := inspector.Inspect(ctx, a.request.Key)
	if failure != nil || len(info.Holders) == 0 {
		return err
	}
	is, wanted := kindOf(info.Holders[0].Mode), kindOf(a.request.Mode)
	if is == wanted { // it has changed meanwhile
		return err
	}
	return textError{fmt.Sprintf("lock: %s is a %s, not a %s", basic.Quote(a.request.Key), is, wanted), err}
}

// kindOf names the locks that use a mode.
func kindOf(m driver.Mode) string {
	switch m {
	case driver.Exclusive:
		return "mutex"
	case driver.Read, driver.Write:
		return "read-write lock"
	case driver.Permit:
		return "semaphore"
	case driver.Members:
		return "group of batches"
	}
	return m.String()
}
