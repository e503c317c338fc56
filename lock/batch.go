package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The bounds of the members of a Batch.
const (
	MaxMembers     = 10_000  // members
	MaxMemberBytes = 1 << 20 // bytes in all of them together
)

// Batch is a lock of many members of a group, such as the orders that are to be
// changed together: two batches of a group exclude each other if they have a member
// in common, and else do not know of each other.
//
// However many members it has, up to MaxMembers, a batch is one lease: it is got by
// one request, as a whole or not at all, renewed by one entry of the watchdog, and
// lost and given back as a whole. A [Multi] of as many locks takes a round trip
// and a lease for each.
//
//   - It waits. Lock gets the batch as soon as nobody holds any of its members, in
//     the order in which those came who want the same ones. Those who want others are
//     not kept waiting, not even in this process. Nobody holds a part while waiting,
//     so batches never deadlock.
//   - It is reentrant. A Lock or TryLock whose ctx comes from [Held.Context] of a
//     batch of the same client and group, see [Reentrant], enters again without IO
//     if ctx has all of its members, from one such batch or from several; of several
//     the handle is one like that of a Multi, and Held.Members has theirs. If ctx has
//     some of them the error is ErrPartlyHeld: who waited for the rest would hold a
//     part, and two such would wait for each other for ever. Lock what is needed in
//     all first; or the rest as a batch of its own. A batch that was lost is not
//     entered again, nor got anew: that is ErrLost.
//   - It cleans itself up. The members of a holder that has died are free after one
//     TTL, by the clock of the store and nobody else's, and nothing of them stays.
//   - It works where one server is not enough: on a [Quorum], where a majority of
//     several stores has each batch; and in a Multi, with batches of other groups and
//     stores.
//
// The fencing token is that of the whole, higher than those of all batches of the
// group before.
//
// It holds no state: all of one group, in any process, are of the same lock. Its
// methods are safe for concurrent use.
type Batch struct {
	client *Client
	group  string
	extra  *Extra
	wrong  error // the answer to every Lock
}

var _ Locker = (*Batch)(nil)

// ErrPartlyHeld is returned by a [Batch] whose ctx has some of its members, and not
// all.
var ErrPartlyHeld = errors.New("lock: some members of the batch are held by this context, and some are not")

// ErrBadMembers matches the refusal of the members of a [Batch].
var ErrBadMembers = errors.New("lock: bad members")

// Batch returns the lock of the given members of a group: 1 to MaxMembers, of 1 to
// MaxKeyLen bytes each and MaxMemberBytes in all, any bytes, in any order, none of
// them twice. The group is a key; see [Client.Mutex]. The members are copied. What is
// wrong with them is the error of Lock, which does no IO for it and names the first
// by its index.
func (c *Client) Batch(group string, members ...string) *Batch {
	b := &Batch{client: c, group: group, extra: new(Extra)}
	if err := checkMembersOf(members); err != nil {
		b.wrong = failed("", group, err)
		return b
	}
	b.extra.Members = slices.Clone(members)
	slices.Sort(b.extra.Members)
	return b
}

// checkMembersOf names what is wrong with the members of a batch.
func checkMembersOf(members []string) error {
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
			return fmt.Errorf("%w: member %d is member %d again, %s", ErrBadMembers, i, before, quoted(m))
		}
		first[m] = i
		if total += len(m); total > MaxMemberBytes {
			return fmt.Errorf("%w: up to member %d they have %d bytes, the limit is %d", ErrBadMembers, i, total, MaxMemberBytes)
		}
	}
	return nil
}

// Lock enters the batch again if ctx carries its ownership, or else waits until it
// has all members. Errors are those of [Reentrant.Lock]; ErrBadMembers;
// ErrPartlyHeld; and errors.ErrUnsupported of a store that knows no batches.
func (b *Batch) Lock(ctx context.Context) (*Held, error) { return b.acquire(ctx, true) }

// TryLock enters the batch again if ctx carries its ownership, or else gets it if
// nobody holds or waits for any of its members. If not the error is a *HeldError,
// which matches ErrNotAcquired; the others are those of Lock.
func (b *Batch) TryLock(ctx context.Context) (*Held, error) { return b.acquire(ctx, false) }

// Key returns the group.
func (b *Batch) Key() string { return b.group }

func (b *Batch) acquire(ctx context.Context, wait bool) (*Held, error) {
	switch {
	case b == nil || b.client == nil:
		return nil, errZeroLock
	case b.wrong != nil:
		return nil, b.wrong
	}
	request := Request{Key: b.group, Mode: Members, Extra: b.extra}
	parts, rest := partsOf(b.client.owned(ctx, request), b.extra.Members)
	if len(parts) == 0 {
		return b.client.acquire(ctx, request, wait)
	}
	if len(rest) > 0 {
		return nil, failed("", b.group, fmt.Errorf("%w: %s is not, like %d others of %d",
			ErrPartlyHeld, quoted(rest[0]), len(rest)-1, len(b.extra.Members)))
	}
	held, err := enterAll(ctx, parts)
	if err != nil {
		return nil, failed("", b.group, err)
	}
	return held, nil
}

// part is what one ownership has of a batch.
type part struct {
	of      *ownership
	members []string
}

// partsOf finds who has the members of a batch, the innermost first, and which nobody
// has.
func partsOf(o *ownership, members []string) (parts []part, rest []string) {
	for ; o != nil; o = o.outer {
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

// enterAll returns a handle that stands for all parts.
func enterAll(ctx context.Context, parts []part) (*Held, error) {
	got := make([]*Held, 0, len(parts))
	for _, p := range parts {
		h, err := p.of.enter(ctx, p.members)
		if err != nil {
			giveBack(ctx, got)
			return nil, err
		}
		got = append(got, h)
	}
	if len(got) == 1 {
		return got[0], nil
	}
	return newGroup(got), nil
}
