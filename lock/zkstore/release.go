// Release and ReleaseAll.

package zkstore

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Release implements [driver.Store]. A Release with Unanswered is remembered by this Store only: the
// requests of a session are executed in order, so no other Store has a late Acquire of the owner.
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return s.call(ctx, "release", func(ctx context.Context) error {
		if l.Unanswered {
			s.giveUp(l.Owner)
		}
		return s.clientOf(leaseKey{l.Key, l.Owner}).release(ctx, l)
	})
}

func (s *client) release(ctx context.Context, l driver.Lease) error {
	k := leaseKey{l.Key, l.Owner}
	if path, _ := s.heldPath(k); path != "" && !l.Unanswered {
		err := s.remove(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = driver.ErrNotHeld
			fallthrough
		case err == nil:
			s.forget(k, path)
		}
		return err
	}
	if err := s.settle(ctx, k); err != nil {
		return err
	}
	all, err := s.fresh(ctx, l.Key)
	if err != nil && !errors.Is(err, driver.ErrWrongType) {
		return err
	}
	held, had := holders(all), false
	for i, n := range all {
		if n.owner != l.Owner {
			continue
		}
		path := s.lockPath(l.Key) + "/" + n.name
		err := s.remove(ctx, path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		s.forget(k, path)
		had = had || i < held && err == nil
	}
	if !had {
		return driver.ErrNotHeld
	}
	return nil
}

// heldPath returns the path of a lease that this store holds, "" if it holds none, and its client.
func (s *Store) heldPath(k leaseKey) (string, *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.records[k]; rec != nil && rec.token != 0 {
		return rec.path, rec.client
	}
	return "", nil
}

// ReleaseAll implements [driver.Store]. It removes the nodes in one transaction for each
// 400 kB of paths. If one of them is missing already, it removes those of the transaction one by one.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	chunks, paths := make(map[*client]*chunk), make([]string, len(batch))
	seen := make(map[string]bool)
	flush := func(c *chunk) {
		c.client.releaseSome(ctx, batch, c.at, paths, out)
		delete(chunks, c.client)
	}
	flushAll := func() {
		for _, c := range chunks {
			flush(c)
		}
		clear(seen)
	}
	for i := range batch {
		l := &batch[i]
		path, of := s.heldPath(leaseKey{l.Key, l.Owner})
		n, _ := parseNode(path[strings.LastIndexByte(path, '/')+1:])
		if path == "" || l.Unanswered || seen[path] || n.number >= s.numbers {
			flushAll() // keeps the order of two releases of one lease
			out[i] = s.Release(ctx, *l)
			continue
		}
		paths[i], seen[path] = path, true
		if c := chunks[of]; c != nil {
			if c.add(i, path) {
				continue
			}
			flush(c)
		}
		chunks[of] = &chunk{client: of}
		chunks[of].add(i, path)
	}
	flushAll()
	return nil
}

// releaseSome removes the nodes of the leases at the given places of a batch.
func (s *client) releaseSome(ctx context.Context, batch []driver.Lease, at []int, paths []string, out []error) {
	inner, end, err := s.begin(ctx)
	if err == nil {
		ops := make([]any, len(at))
		for n, i := range at {
			ops[n] = &zk.DeleteRequest{Path: paths[i], Version: -1}
		}
		err = s.multi(inner, ops...)
		end()
	}
	for _, i := range at {
		l := &batch[i]
		if err != nil {
			out[i] = s.Release(ctx, *l)
			continue
		}
		s.forget(leaseKey{l.Key, l.Owner}, paths[i])
		out[i] = nil
	}
}
