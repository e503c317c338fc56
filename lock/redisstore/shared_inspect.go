package redisstore

import (
	"context"
	"slices"

	"github.com/leasewheel/leasewheel/lock"
)

// inspectShared shows a lock in one of the shared modes. Seen is the highest token
// that is known.
func (s *Store) inspectShared(ctx context.Context, key string) (info lock.Info, seen uint64, err error) {
	k := s.sharedKeys(key, "")
	reply, err := s.run(ctx, sharedInspectScript, "", nil, nil, 4, &k.lock, &k.token, &k.queue, &k.records)
	if err != nil {
		return lock.Info{}, 0, err
	}
	return parseShared(reply)
}

// forceShared takes a lock in one of the shared modes away from all holders that
// it sees.
func (s *Store) forceShared(ctx context.Context, key string) error {
	_, seen, err := s.inspectShared(ctx, key)
	if err != nil {
		return err
	}
	k := s.sharedKeys(key, "")
	reply, err := s.run(ctx, sharedForceScript, "", nil, nil, 6,
		&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, seen, memory.Milliseconds())
	if err != nil {
		return err
	}
	done, err := parseCode(reply, maxToken)
	if err == nil && done == 0 {
		err = lock.ErrNotHeld
	}
	return err
}

// parseShared reads the reply of the inspect script for shared locks.
func parseShared(reply any) (info lock.Info, seen uint64, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 5 {
		return lock.Info{}, 0, unexpected(reply)
	}
	held, okHeld := items[0].(int64)
	waiting, okWaiting := items[1].(int64)
	last, okLast := parseTokenOrNone(items[2])
	highest, okHighest := parseTokenOrNone(items[3])
	holders, okHolders := items[4].([]any)
	if !okHeld || !okWaiting || !okLast || !okHighest || !okHolders || held < int64(len(holders)) || waiting < 0 {
		return lock.Info{}, 0, unexpected(reply)
	}
	info = lock.Info{Held: int(held), Waiting: int(waiting), Token: last}
	for _, item := range holders {
		h, ok := parseHolder(item)
		if !ok {
			return lock.Info{}, 0, unexpected(reply)
		}
		info.Holders = append(info.Holders, h)
	}
	return info, max(last, highest), nil
}

// parseTokenOrNone reads a token, or 0 if there is none.
func parseTokenOrNone(item any) (uint64, bool) {
	if item == nil {
		return 0, true
	}
	return parseToken(item)
}

func parseHolder(item any) (h lock.Holder, ok bool) {
	fields, ok := item.([]any)
	if !ok || len(fields) != 5 {
		return h, false
	}
	token, okToken := parseToken(fields[0])
	expiresIn, okExpiry := parseExpiry(fields[1])
	letter, okMode := fields[2].(string)
	limit, okLimit := fields[3].(int64)
	metadata, okMetadata := fields[4].(string)
	mode := slices.Index(modes[:], letter)
	if !okToken || !okExpiry || expiresIn <= 0 || !okMode || mode < int(lock.Read) || !okLimit || limit < 0 || !okMetadata {
		return h, false
	}
	h = lock.Holder{Mode: lock.Mode(mode), Token: token, ExpiresIn: expiresIn, Metadata: metadata}
	if h.Mode == lock.Members {
		h.Members = int(limit)
	}
	return h, true
}
