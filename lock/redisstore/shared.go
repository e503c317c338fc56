package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// modes are those of the scripts for shared locks.
var modes = [...]string{lock.Read: "r", lock.Write: "w", lock.Permit: "p", lock.Members: "m"}

// askShared is ask for the modes that are not Exclusive.
func (s *Store) askShared(ctx context.Context, r lock.Request, place time.Duration) (acquired, error) {
	limit, packed := wish(&r)
	k := s.sharedKeys(r.Key, r.Owner)
	metadata := r.Metadata()
	reply, err := s.run(ctx, sharedAcquireScript, r.Owner, nil, nil, 7,
		&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, &k.tombstone,
		&r.Owner, r.TTL.Milliseconds(), place.Milliseconds(), memory.Milliseconds(),
		modes[r.Mode], limit, &metadata, &packed)
	if err != nil {
		return acquired{}, err
	}
	return parseAcquired(reply)
}

// wish returns what the script is told of a request beside its mode: the limit, or
// the number of members; and the members, packed.
func wish(r *lock.Request) (limit int, packed string) {
	if r.Mode == lock.Members {
		return len(r.Members()), packMembers(r.Members())
	}
	return r.Limit(), ""
}

// checkWish refuses what no shared lock can be asked for.
func checkWish(r *lock.Request) error {
	switch {
	case r.Mode == lock.Permit && r.Limit() < 1:
		return fmt.Errorf("the limit of permits must be at least 1, got %d", r.Limit())
	case r.Mode == lock.Members:
		return checkMembers(r.Members())
	}
	return nil
}

func checkMembers(members []string) error {
	if len(members) == 0 || len(members) > lock.MaxMembers {
		return fmt.Errorf("%w: there must be 1 to %d members, got %d", lock.ErrBadMembers, lock.MaxMembers, len(members))
	}
	size := 0
	for _, m := range members {
		if m == "" {
			return fmt.Errorf("%w: one is empty", lock.ErrBadMembers)
		}
		size += len(m)
	}
	if size > lock.MaxMemberBytes {
		return fmt.Errorf("%w: they are %d bytes long together, the limit is %d", lock.ErrBadMembers, size, lock.MaxMemberBytes)
	}
	return nil
}

// packMembers puts each member in a line of its own.
func packMembers(members []string) string {
	var b strings.Builder
	size := 0
	for _, m := range members {
		size += len(m) + 1
	}
	b.Grow(size)
	for _, m := range members {
		if strings.ContainsAny(m, "\n\\") {
			m = oneLine.Replace(m)
		}
		b.WriteString(m)
		b.WriteByte('\n')
	}
	return b.String()
}

var oneLine = strings.NewReplacer("\\", `\\`, "\n", `\n`)

// releaseShared is release for the modes that are not Exclusive.
func (s *Store) releaseShared(ctx context.Context, l lock.Lease, refuse time.Duration) error {
	k := s.sharedKeys(l.Key, l.Owner)
	reply, err := s.run(ctx, sharedReleaseScript, l.Owner, nil, nil, 7,
		&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, &k.tombstone,
		&l.Owner, refuse.Milliseconds(), memory.Milliseconds())
	if err != nil {
		return err
	}
	return parseReleased(reply)
}

// addShared adds the script for items[from:to], which are shared. In place of members
// that a lease does not have it names the records again: while a slot moves, a server
// refuses what names a key that is not there.
func (r *round) addShared(from, to int) {
	n := to - from
	start := len(r.args)
	r.args = append(r.args, nil, nil, 3*n)
	for _, it := range r.items[from:to] {
		third := recordsEnd
		if it.members {
			third = membersEnd
		}
		r.args = append(r.args, &it.key, it.key+recordsEnd, it.key+third)
	}
	r.args = append(r.args, r.items[from].ttl)
	for _, it := range r.items[from:to] {
		r.args = append(r.args, &it.value)
	}
	r.parts = append(r.parts, part{from: from, to: to, script: sharedRenewScript, args: r.args[start:], asking: r.items[from].asking})
}
