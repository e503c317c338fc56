// Renew, which asks a quorum whether the nodes exist.

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	maxBytes = 400_000 // of the paths in one transaction, and in one session; a server accepts a megabyte by default
	maxOps   = 1000    // in one transaction
	maxReads = 32      // under way at one time
	attempts = 3       // of a request whose connection broke
)

// chunk is the part of a batch that goes into one transaction of a client.
type chunk struct {
	client *client
	at     []int // places in the batch
	bytes  int
}

// Renew implements [renewal.Renewer]. One transaction checks that all nodes of the batch exist. It
// changes nothing, but a quorum confirms it, and the leader refuses it from a session that has
// expired.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	start := time.Now()
	paths := make([]string, len(batch))
	var chunks []*chunk
	last := make(map[*client]*chunk)
	for i := range batch {
		l := &batch[i]
		rec, ok := s.touch(leaseKey{l.Key, l.Owner}, l.Token, start.Add(l.TTL))
		if !ok || rec.token == 0 {
			out[i] = renewal.Lost
			continue
		}
		paths[i] = rec.path
		c, bytes := last[rec.client], len(rec.path)+20
		if c == nil || c.bytes+bytes > maxBytes || len(c.at) == maxOps {
			c = &chunk{client: rec.client}
			last[rec.client] = c
			chunks = append(chunks, c)
		}
		c.at = append(c.at, i)
		c.bytes += bytes
	}
	err = storekit.Each(len(chunks), len(chunks), func(n int) error {
		return chunks[n].client.renewSome(ctx, batch, paths, chunks[n].at, start, out)
	})
	if err != nil {
		return s.failed(ctx, fmt.Sprintf("renew %d leases", len(batch)), err)
	}
	return nil
}

// renewSome renews the leases at the given places of a batch.
func (s *client) renewSome(ctx context.Context, batch []driver.Lease, all []string, at []int, start time.Time, out []renewal.Outcome) error {
	paths := make([]string, len(at))
	var longest time.Duration
	for n, i := range at {
		paths[n] = all[i]
		longest = max(longest, batch[i].TTL)
	}
	session := s.link.current()
	missing, err := s.checkNodes(ctx, paths)
	if err != nil && !errors.Is(err, errEndedMeanwhile) {
		return err
	}
	if err := s.link.lasts(ctx, session, start.Add(longest)); err != nil {
		return err
	}
	for n, i := range at {
		out[i] = renewal.Lost
		if missing[paths[n]] {
			s.forget(paths[n])
		} else if s.renewed(paths[n], session, start.Add(batch[i].TTL)) {
			out[i] = renewal.Renewed
		}
	}
	return nil
}

// checkNodes asks a quorum whether nodes exist. It returns those that are missing, with
// errEndedMeanwhile, if there are any.
func (s *client) checkNodes(ctx context.Context, paths []string) (missing map[string]bool, err error) {
	missing = make(map[string]bool)
	for failures := 0; ; {
		var ops []any
		for _, path := range paths {
			if !missing[path] {
				ops = append(ops, &zk.CheckVersionRequest{Path: path, Version: -1})
			}
		}
		if len(ops) == 0 {
			return missing, errEndedMeanwhile
		}
		session := s.link.current()
		err := s.multi(ctx, ops...)
		switch {
		case err == nil && session != s.link.current():
			return nil, errNewSession
		case err == nil && len(missing) > 0:
			return missing, errEndedMeanwhile
		case err == nil:
			return missing, nil
		case errors.Is(err, zk.ErrNoNode):
			// The failed transaction is in the log, so this server knows what is missing.
			if err := s.findMissing(ctx, paths, missing); err != nil {
				return nil, err
			}
		case !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionMoved):
			return nil, err
		}
		if failures++; failures > attempts {
			return nil, fmt.Errorf("no answer after %d attempts: %w", attempts, err)
		}
	}
}

// findMissing adds the paths without a node to missing.
func (s *client) findMissing(ctx context.Context, paths []string, missing map[string]bool) error {
	exists := make([]bool, len(paths))
	err := storekit.Each(len(paths), maxReads, func(i int) error {
		var err error
		exists[i], err = ask(ctx, s.link, func(c *zk.Conn) (bool, error) {
			ok, _, err := c.Exists(paths[i])
			return ok, err
		})
		return err
	})
	if err != nil {
		return err
	}
	for i, path := range paths {
		if !exists[i] {
			missing[path] = true
		}
	}
	return nil
}
