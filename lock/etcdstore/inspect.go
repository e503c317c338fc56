// Inspect, ForceRelease, SetMetadata and List.

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPlaces = 100  // shown by Inspect
	listPage  = 1000 // keys of one List
)

// Inspect implements [driver.Store]. The token of a free lock is 0.
func (s *Store) Inspect(ctx context.Context, key string) (info driver.Info, err error) {
	err = s.call(ctx, "inspect", func(ctx context.Context) (err error) {
		info, err = s.inspect(ctx, key)
		return err
	})
	return info, err
}

func (s *Store) inspect(ctx context.Context, key string) (info driver.Info, err error) {
	answer, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.lockKey(key)),
		clientv3.OpGet(s.metaKey(key)),
		clientv3.OpGet(s.queueKeys(key), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(maxPlaces)),
	).Commit()
	if err != nil {
		return info, err
	}
	if lock := only(answer.Responses[0]); lock != nil {
		owner, _, ok := parse(lock)
		if !ok {
			return info, driver.ErrWrongType
		}
		h := driver.Holder{Token: uint64(lock.CreateRevision), Client: driver.ClientName(owner), ExpiresIn: s.expiresIn(ctx, lock)} //nolint:gosec // a revision is above 0
		if meta := only(answer.Responses[1]); meta != nil && meta.Lease == lock.Lease {
			h.Metadata = string(meta.Value)
		}
		info.Held, info.Token, info.Holders = 1, h.Token, []driver.Holder{h}
	}
	queue := answer.Responses[2].GetResponseRange()
	info.Waiting = int(queue.Count)
	for _, kv := range queue.Kvs {
		if owner, metadata, ok := parse(kv); ok {
			info.Places = append(info.Places, driver.Place{Metadata: metadata, Client: driver.ClientName(owner)})
		}
	}
	return info, nil
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	return s.call(ctx, "force release", func(ctx context.Context) error {
		kv, err := s.lock(ctx, key)
		if err != nil {
			return err
		}
		lock := s.lockKey(key)
		answer, err := s.client.Txn(ctx).If(
			clientv3.Compare(clientv3.CreateRevision(lock), "=", kv.CreateRevision),
		).Then(clientv3.OpDelete(lock), clientv3.OpDelete(s.metaKey(key))).Commit()
		if err == nil && !answer.Succeeded {
			err = driver.ErrNotHeld
		}
		return err
	})
}

// lock reads a lock that is held. The error is driver.ErrNotHeld if it is not.
func (s *Store) lock(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	got, err := s.client.Get(ctx, s.lockKey(key))
	switch {
	case err != nil:
		return nil, err
	case len(got.Kvs) == 0:
		return nil, driver.ErrNotHeld
	}
	if _, _, ok := parse(got.Kvs[0]); !ok {
		return nil, driver.ErrWrongType
	}
	return got.Kvs[0], nil
}

// SetMetadata implements [driver.Store].
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("etcdstore: set metadata: %v: %w", l.Mode, errors.ErrUnsupported)
	}
	return s.call(ctx, "set metadata", func(ctx context.Context) error {
		lock, meta := s.lockKey(l.Key), s.metaKey(l.Key)
		for range 3 { // a renewal with another TTL may move the lock meanwhile
			kv, err := s.lock(ctx, l.Key)
			if err != nil {
				return err
			}
			if !isHeldBy(kv, &l) {
				return driver.ErrNotHeld
			}
			write := clientv3.OpDelete(meta)
			if metadata != "" {
				write = clientv3.OpPut(meta, metadata, clientv3.WithLease(clientv3.LeaseID(kv.Lease)))
			}
			answer, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(lock), "=", kv.ModRevision)).Then(write).Commit()
			if err != nil || answer.Succeeded {
				return err
			}
		}
		return errors.New("the lock changes all the time")
	})
}

// List implements [driver.Store]. The cursor is the last key.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if cursor != "" && !strings.HasPrefix(cursor, prefix) {
		return nil, "", errors.New("etcdstore: list: the cursor is not of this prefix")
	}
	from := s.lockKey(prefix)
	if cursor != "" {
		from = max(from, s.lockKey(cursor)+"\x00")
	}
	var got *clientv3.GetResponse
	err = s.call(ctx, "list", func(ctx context.Context) (err error) {
		got, err = s.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.lockKey(prefix))),
			clientv3.WithKeysOnly(), clientv3.WithLimit(listPage))
		return err
	})
	if err != nil {
		return nil, "", err
	}
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key)[len(s.lockKey("")):])
	}
	if got.More && len(keys) > 0 {
		next = keys[len(keys)-1]
	}
	return keys, next, nil
}
