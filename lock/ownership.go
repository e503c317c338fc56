package lock

import "context"

// ownership is what the context of a handle carries. Exclusive locks and batches look
// for it, to be entered again; the others do not.
type ownership struct {
	held    *Held // whose context it is
	of      *holding
	members []string   // of a batch: those that held stands for, sorted
	outer   *ownership // of the same client and key, that the context had before
}

type ownershipKey struct {
	core *core
	key  string
	mode Mode
}

// owned returns the ownership that ctx carries of what a request asks for, nil if
// there is none. Of one that acquire refuses in words there is none.
func (c *Client) owned(ctx context.Context, r Request) *ownership {
	if ctx == nil || c == nil || c.core == nil || c.wrong != nil {
		return nil
	}
	o, _ := ctx.Value(ownershipKey{c.core, r.Key, r.Mode}).(*ownership)
	return o
}

// enter returns another handle, which stands for the given members if the lock is a
// batch.
func (o *ownership) enter(ctx context.Context, members []string) (*Held, error) {
	if err := o.held.Err(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, refusal(ctx, nil)
	}
	return o.of.enter(members)
}

func (s *holding) carry(ctx context.Context, h *Held) context.Context {
	return s.carryAs(ctx, h, s.names())
}

// carryAs returns a ctx in which Reentrant and Batch find h.
func (s *holding) carryAs(ctx context.Context, h *Held, members []string) context.Context {
	r := s.entry.Lease().Request
	outer := s.client.owned(ctx, r)
	return context.WithValue(ctx, ownershipKey{s.client.core, r.Key, r.Mode}, &ownership{h, s, members, outer})
}
