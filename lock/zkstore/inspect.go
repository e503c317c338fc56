// Inspect, ForceRelease, SetMetadata and List.

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

const (
	maxHolders = 16  // shown by Inspect
	maxPlaces  = 100 // shown by Inspect
	listPage   = 100 // keys of one List
)

// fresh returns the nodes of a lock, not older than the call.
func (s *client) fresh(ctx context.Context, key string) ([]node, error) {
	if err := s.sync(ctx, s.lockPath(key)); err != nil {
		return nil, err
	}
	return s.lockNodes(ctx, key)
}

// Inspect implements [driver.Store]. The token of a free lock is 0. ExpiresIn is the TTL of the
// acquisition, because the server does not know when the holder has renewed its lease.
func (s *Store) Inspect(ctx context.Context, key string) (info driver.Info, err error) {
	err = s.call(ctx, "inspect", func(ctx context.Context) error {
		c, err := s.first(), zk.ErrNoNode
		for tries := 0; tries < attempts && errors.Is(err, zk.ErrNoNode); tries++ {
			var all []node
			if all, err = c.fresh(ctx, key); err == nil {
				info, err = c.infoOf(ctx, key, all)
			}
		}
		return err
	})
	if err != nil {
		return driver.Info{}, err
	}
	return info, nil
}

// infoOf reads the nodes of a lock.
func (s *client) infoOf(ctx context.Context, key string, all []node) (driver.Info, error) {
	var info driver.Info
	if len(all) == 0 {
		return info, nil
	}
	held := holders(all)
	first, places := all[:min(held, maxHolders)], all[held:min(len(all), held+maxPlaces)]
	shown := slices.Concat(first, places, all[held-1:held])
	got := make([]seen, len(shown))
	err := storekit.Each(len(shown), maxReads, func(i int) error {
		var err error
		got[i], err = s.get(ctx, s.lockPath(key)+"/"+shown[i].name)
		return err
	})
	if err != nil {
		return info, err
	}
	info.Held, info.Waiting = held, len(all)-held
	info.Token = tokenOf(got[len(got)-1])
	for i, n := range first {
		info.Holders = append(info.Holders, driver.Holder{
			Mode:      n.mode,
			Token:     tokenOf(got[i]),
			ExpiresIn: time.Duration(got[i].content.TTL) * time.Millisecond,
			Metadata:  string(got[i].content.Metadata),
			Client:    driver.ClientName(n.owner),
		})
	}
	for i, n := range places {
		info.Places = append(info.Places, driver.Place{
			Mode: n.mode, Metadata: string(got[len(first)+i].content.Metadata), Client: driver.ClientName(n.owner),
		})
	}
	return info, nil
}

func tokenOf(n seen) uint64 { return uint64(n.stat.Czxid) } //nolint:gosec // a transaction is above 0

// ForceRelease implements [driver.Store]. It removes the nodes of all holders, one by one.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	return s.call(ctx, "force release", func(ctx context.Context) error {
		c := s.first()
		all, err := c.fresh(ctx, key)
		if err != nil {
			return err
		}
		answer := driver.ErrNotHeld
		for _, n := range all[:holders(all)] {
			switch err := c.remove(ctx, s.lockPath(key)+"/"+n.name); {
			case err == nil:
				answer = nil
			case !errors.Is(err, zk.ErrNoNode):
				return err
			}
		}
		return answer
	})
}

// SetMetadata implements [driver.Store].
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if _, ok := letters[l.Mode]; !ok {
		return fmt.Errorf("zkstore: set metadata: %v: %w", l.Mode, errors.ErrUnsupported)
	}
	return s.call(ctx, "set metadata", func(ctx context.Context) error { return s.first().setMetadata(ctx, l, metadata) })
}

func (s *client) setMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	all, err := s.fresh(ctx, l.Key)
	if err != nil {
		return err
	}
	own := find(all, l.Owner)
	if own < 0 || own >= holders(all) {
		return driver.ErrNotHeld
	}
	err = s.change(ctx, s.lockPath(l.Key)+"/"+all[own].name, func(n *seen) error {
		if tokenOf(*n) != l.Token {
			return driver.ErrNotHeld
		}
		n.content.Metadata = []byte(metadata)
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrNotHeld
	}
	return err
}

// List implements [driver.Store]. The cursor is the last key. Each call reads the names of all
// locks below the root, because a server gives no part of them.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if cursor != "" && !strings.HasPrefix(cursor, prefix) {
		return nil, "", errors.New("zkstore: list: the cursor is not of this prefix")
	}
	var page []string
	var held []bool
	err = s.call(ctx, "list", func(ctx context.Context) (err error) {
		c := s.first()
		if page, next, err = c.page(ctx, prefix, cursor); err != nil {
			return err
		}
		held = make([]bool, len(page))
		return storekit.Each(len(page), maxReads, func(i int) error {
			all, _, err := c.nodes(ctx, page[i])
			held[i] = len(all) > 0
			return err
		})
	})
	if err != nil {
		return nil, "", err
	}
	for i, key := range page {
		if held[i] {
			keys = append(keys, key)
		}
	}
	return keys, next, nil
}

// page returns the next keys after a cursor, whether they are held or not.
func (s *client) page(ctx context.Context, prefix, cursor string) (page []string, next string, err error) {
	if err := s.sync(ctx, s.root); err != nil {
		return nil, "", err
	}
	names, err := s.children(ctx, s.root)
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		key, err := encoding.DecodeString(name)
		if err == nil && strings.HasPrefix(string(key), prefix) && string(key) > cursor {
			page = append(page, string(key))
		}
	}
	slices.Sort(page)
	if len(page) > listPage {
		page = page[:listPage]
		next = page[listPage-1]
	}
	return page, next, nil
}
