package memstore

import (
	"context"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

var (
	_ driver.Inspector      = (*Store)(nil)
	_ driver.MetadataSetter = (*Store)(nil)
)

// The bounds of an Info.
const (
	maxHolders = 16
	maxPlaces  = 100
)

// Inspect implements [driver.Inspector]. Info.Token is 0 once the key is idle, because
// the store removes its state.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	if err := basic.Cause(ctx); err != nil {
		return driver.Info{}, err
	}
	k, now, err := s.lock(key, 0)
	if k == nil {
		return driver.Info{}, err
	}
	defer s.unlock(k)
	info := driver.Info{Held: k.holders.n - k.holders.kept, Waiting: k.n, Token: k.lastToken}
	if k.holders.n > 0 && info.Held == 0 {
		info.FreeIn = k.holders.ends.last().Sub(now)
	}
	for h := k.holders.first; h != nil && len(info.Holders) < min(maxHolders, info.Held); h = h.next {
		if h.kept {
			continue
		}
		shown := driver.Holder{Mode: h.mode, Token: h.token, ExpiresIn: h.until.Sub(now), Metadata: h.metadata, Client: driver.ClientName(h.owner), Members: len(h.members)}
		if h.mode == driver.Permit {
			shown.Permits = h.permits
		}
		info.Holders = append(info.Holders, shown)
	}
	for w := k.head; w != nil && len(info.Places) < maxPlaces; w = w.next {
		r := w.request
		info.Places = append(info.Places, driver.Place{Mode: r.Mode, Metadata: r.Metadata(), Client: driver.ClientName(r.Owner)})
	}
	return info, nil
}

// SetMetadata implements [driver.MetadataSetter], in all modes.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	k, _, err := s.lock(l.Key, 0)
	switch {
	case err != nil:
		return err
	case k == nil:
		return driver.ErrNotHeld
	}
	defer s.unlock(k)
	h := k.holders.find(l.Owner)
	if h == nil || h.token != l.Token {
		return driver.ErrNotHeld
	}
	h.metadata = metadata
	return nil
}

// ForceRelease implements [driver.Inspector].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	held, err := s.revokeAll(key)
	if err == nil && !held {
		err = driver.ErrNotHeld
	}
	return err
}
