package redisstore

import (
	"context"
	"slices"

	"github.com/leasewheel/leasewheel/lock"
)

// inspectShared shows a lock in one of the shared modes.
func (s *Store) inspectShared(ctx context.Context, key string) (lock.Info, error) {
	reply, err := await(ctx, s, s.timeout, func(ctx context.Context) (any, error) {
		k := s.sharedKeys(key, "")
		return s.run(ctx, sharedInspectScript, "", nil, nil, 4, &k.lock, &k.token, &k.queue, &k.records)
	})
	if err != nil {
		return lock.Info{}, err
	}
	return parseShared(reply)
}

// forceShared takes a lock in one of the shared modes away from all holders whose
// tokens are not above one that was seen, and returns how many those were.
func (s *Store) forceShared(ctx context.Context, key string, seen uint64) (int, error) {
	reply, err := await(ctx, s, s.timeout, func(ctx context.Context) (any, error) {
		k := s.sharedKeys(key, "")
		return s.run(ctx, sharedForceScript, "", nil, nil, 6,
			&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, seen, memory.Milliseconds())
	})
	if err != nil {
		return 0, err
	}
	done, err := parseCode(reply, maxToken)
	return int(done), err
}

// parseShared reads the reply of the inspect script for shared locks.
func parseShared(reply any) (lock.Info, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 4 {
		return lock.Info{}, unexpected(reply)
	}
	held, okHeld := items[0].(int64)
	waiting, okWaiting := items[1].(int64)
	holders, okHolders := items[3].([]any)
	if !okHeld || !okWaiting || !okHolders || held < int64(len(holders)) || waiting < 0 {
		return lock.Info{}, unexpected(reply)
	}
	info := lock.Info{Held: int(held), Waiting: int(waiting)}
	if items[2] != nil {
		if info.Token, ok = parseToken(items[2]); !ok {
			return lock.Info{}, unexpected(reply)
		}
	}
	for _, item := range holders {
		h, ok := parseHolder(item)
		if !ok {
			return lock.Info{}, unexpected(reply)
		}
		info.Holders = append(info.Holders, h)
	}
	return info, nil
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
