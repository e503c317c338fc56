// List.

package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// List implements [driver.Store] if all members do. It lists one member after another,
// until so many are complete that every lock has a copy at one of them. A key that several
// members have is returned several times. A key with leases at a minority only, for example
// of an Acquire that has just failed, is returned too; Inspect tells whether it is held.
// A member that fails is left out, unless too few are left.
func (q *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if !q.Describe().Lists {
		return q.Base.List(ctx, prefix, cursor)
	}
	if err := basic.Cause(ctx); err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor, len(q.members))
	if err != nil {
		return nil, "", err
	}
	type page struct {
		keys []string
		next string
	}
	answers, err := callAll(ctx, q, inspectTimeout, []int{at.member}, func(ctx context.Context, i int) (page, error) {
		keys, next, err := q.members[i].store.List(ctx, prefix, at.cursor)
		return page{keys, next}, err
	})
	if err != nil {
		return nil, "", err
	}
	var a answer[page]
	select {
	case a = <-answers:
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	need := (len(q.members) + 1) / 2 // a majority cannot avoid so many members
	switch {
	case a.err != nil && at.failed == len(q.members)-need:
		return nil, "", fmt.Errorf("quorumstore: the locks of too few stores are known: %w", memberErrors{fmt.Errorf("store %d: %w", a.at, a.err)})
	case a.err != nil:
		at = listCursor{member: at.member + 1, failed: at.failed + 1}
	case a.value.next != "":
		at.cursor = a.value.next
	default:
		at = listCursor{member: at.member + 1, failed: at.failed}
	}
	if complete := at.member - at.failed; complete < need {
		next = at.String()
	}
	return a.value.keys, next, nil
}

// listCursor is the cursor of List.
type listCursor struct {
	member int    // the member that is listed
	failed int    // how many of the members before have failed
	cursor string // of the member
}

// String returns the cursor as text.
func (c listCursor) String() string { return fmt.Sprintf("%d.%d.%s", c.member, c.failed, c.cursor) }

// parseCursor reads a cursor for a number of members.
func parseCursor(text string, members int) (c listCursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) == 3 {
		var errs [2]error
		c.member, errs[0] = strconv.Atoi(parts[0])
		c.failed, errs[1] = strconv.Atoi(parts[1])
		c.cursor = parts[2]
		if errors.Join(errs[:]...) == nil && c.failed >= 0 && c.failed <= c.member && c.member < members {
			return c, nil
		}
	}
	return c, errors.New("quorumstore: the cursor is not one of List")
}
