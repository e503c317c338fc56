// Batch, many members of a group as one lock.

package lock

import (
	"context"
	"fmt"
	"slices"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Batch is a lock of several members of a group. Two batches of a group exclude each other if they
// have a common member.
//
// A batch is one lease: its members are acquired, renewed, lost and released together. Batches with
// common members are served in order; others do not wait for them. Batches never deadlock. The
// fencing token rises with each batch of the group.
//
// If ctx carries the ownership of batches of the same client and group that have all members, Lock
// and TryLock enter them again without IO; see [Reentrant]. If they are several, the handle is like
// that of a [Multi].
type Batch struct {
	client *Client
	key    string // of the group
	extra  *driver.Attrs
	wrong  error // the error of every Lock
}

var _ Locker = (*Batch)(nil)

// Batch returns the lock of the given members of a group, which is a key; see [Client.Mutex]. There
// must be 1 to MaxMembers distinct members, in any order, of 1 to MaxKeyLen bytes each, and
// MaxMemberBytes in total. They are copied. The error of Lock names the first bad one by its index.
func (c *Client) Batch(group string, members ...string) *Batch {
	b := &Batch{client: c, key: group, extra: new(driver.Attrs)}
	if err := checkBatchMembers(members); err != nil {
		b.wrong = failed("", group, err)
		return b
	}
	b.extra.Members = slices.Clone(members)
	slices.Sort(b.extra.Members)
	return b
}

// checkBatchMembers returns an error that names the first bad member.
func checkBatchMembers(members []string) error {
	if n := len(members); n < 1 || n > MaxMembers {
		return fmt.Errorf("%w: there must be 1 to %d, got %d", ErrBadMembers, MaxMembers, n)
	}
	first, total := make(map[string]int, len(members)), 0
	for i, m := range members {
		switch before, twice := first[m]; {
		case m == "":
			return fmt.Errorf("%w: member %d is empty", ErrBadMembers, i)
		case len(m) > MaxKeyLen:
			return fmt.Errorf("%w: member %d is %d bytes long, the limit is %d", ErrBadMembers, i, len(m), MaxKeyLen)
		case twice:
			return fmt.Errorf("%w: member %d is member %d again, %s", ErrBadMembers, i, before, basic.Quote(m))
		}
		first[m] = i
		if total += len(m); total > MaxMemberBytes {
			return fmt.Errorf("%w: up to member %d they have %d bytes, the limit is %d", ErrBadMembers, i, total, MaxMemberBytes)
		}
	}
	return nil
}

// Lock is [Reentrant.Lock] for all members. The error may also be ErrBadMembers or ErrPartlyHeld.
func (b *Batch) Lock(ctx context.Context) (*Held, error) { return b.acquire(ctx, true, nil) }

// TryLock is Lock, but returns a *HeldError if anybody holds or waits for a member.
func (b *Batch) TryLock(ctx context.Context) (*Held, error) { return b.acquire(ctx, false, nil) }

func (b *Batch) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	switch {
	case b == nil:
		return nil, errZeroLock
	case b.wrong != nil:
		return nil, b.wrong
	}
	return b.client.reenter(ctx, KindBatch, driver.Request{Key: b.key, Mode: driver.Members, Attrs: b.extra}, wait, o)
}

// part is the part of a batch that one ownership has.
type part struct {
	of      *ctxOwner
	members []string
}

// partsOf returns the ownerships that have the members of a batch, innermost first, and
// the members that none has. For a lock without members it returns the innermost one.
func partsOf(o *ctxOwner, members []string) (parts []part, rest []string) {
	if o != nil && members == nil {
		return []part{{of: o}}, nil
	}
	for ; o != nil && len(members) > 0; o = o.outer.find(o.key, o.mode) {
		var has, others []string
		for _, m := range members {
			if _, ok := slices.BinarySearch(o.members, m); ok {
				has = append(has, m)
			} else {
				others = append(others, m)
			}
		}
		if len(has) > 0 {
			parts = append(parts, part{o, has})
		}
		members = others
	}
	return parts, members
}

// enterAll returns a handle of all parts.
func enterAll(ctx context.Context, parts []part) (*Held, error) {
	got := make([]*Held, 0, len(parts))
	for _, p := range parts {
		h, err := p.of.enter(ctx, p.members)
		if err != nil {
			giveBackAll(ctx, got)
			return nil, err
		}
		got = append(got, h)
	}
	if len(got) == 1 {
		return got[0], nil
	}
	return newMultiHandle(got), nil
}
