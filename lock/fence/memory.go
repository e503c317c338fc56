// Memory, a Guard in the memory of one process.

package fence

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"sync"
)

const defaultLimit = 100_000

var errNilContext = errors.New("fence: the context is nil")

// Memory is a Guard in the memory of the one process that owns the resource. A restart
// loses the tokens, so a resource that outlasts the process must store them with its
// data. The zero Memory is the same as NewMemory(0). A Memory must not be copied after
// its first use. Its methods are safe for concurrent use.
type Memory struct {
	limit int // 0 means defaultLimit

	mu        sync.Mutex           // guards all below
	resources map[string]*resource // nil before the first resource
	order     byToken
	floor     uint64 // highest token of the forgotten resources
}

// resource is the state of one resource.
type resource struct {
	name    string
	highest uint64
	users   int           // active requests with the highest token
	drained chan struct{} // closed when all requests with lower tokens have left; nil if there are none
	old     int           // active requests with lower tokens
	waiting int           // requests that wait for drained
	index   int           // position in order
}

var _ Guard = (*Memory)(nil)

// NewMemory returns a Guard that remembers the highest tokens of the given number of
// resources, or 100,000 if the number is not positive. Beyond that limit it forgets the
// resources with the lowest tokens. For an unknown resource it assumes the highest
// forgotten token. So it never admits a stale token. It rejects a current token only if
// that is lower than the tokens of all remembered resources, and its lock has been held
// since then without using the resource. This holds for tokens that are times, as in the
// stores of this module. Resources in use are never forgotten.
func NewMemory(resources int) *Memory {
	return &Memory{limit: max(resources, 0)}
}

// Enter implements [Guard]. A nil ctx is an error.
func (m *Memory) Enter(ctx context.Context, name string, token uint64) (leave func(), err error) {
	switch {
	case token == 0:
		return nil, ErrNoToken
	case ctx == nil:
		return nil, errNilContext
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.observe(name, token)
	if err != nil {
		return nil, err
	}
	for r.highest == token && r.drained != nil {
		if err := m.await(ctx, r); err != nil {
			return nil, err
		}
	}
	if r.highest > token {
		return nil, &StaleError{Resource: name, Token: token, Highest: r.highest}
	}
	r.users++
	return sync.OnceFunc(func() { m.leave(r, token) }), nil
}

// observe returns the resource and records that it has seen the token. The caller holds
// mu.
func (m *Memory) observe(name string, token uint64) (*resource, error) {
	r := m.resources[name]
	if r == nil {
		if token < m.floor {
			return nil, &StaleError{Resource: name, Token: token, Highest: m.floor}
		}
		m.makeRoom()
		r = &resource{name: name, highest: token}
		if m.resources == nil {
			m.resources = make(map[string]*resource)
		}
		m.resources[name] = r
		heap.Push(&m.order, r)
		return r, nil
	}
	if token < r.highest {
		return nil, &StaleError{Resource: name, Token: token, Highest: r.highest}
	}
	if token > r.highest {
		r.highest = token
		heap.Fix(&m.order, r.index)
		r.old, r.users = r.old+r.users, 0
		if r.old > 0 && r.drained == nil {
			r.drained = make(chan struct{})
		}
	}
	return r, nil
}

// await waits until the requests with lower tokens have left. The caller holds mu, which
// await releases while it waits.
func (m *Memory) await(ctx context.Context, r *resource) error {
	drained := r.drained
	r.waiting++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		r.waiting--
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Memory) leave(r *resource, token uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if token == r.highest {
		r.users--
		return
	}
	if r.old--; r.old == 0 {
		close(r.drained)
		r.drained = nil
	}
}

// makeRoom forgets resources until there is room for a new one. The caller holds mu.
func (m *Memory) makeRoom() {
	var busy []*resource
	limit := cmp.Or(m.limit, defaultLimit)
	for len(m.resources) >= limit && len(m.order) > 0 {
		r := heap.Pop(&m.order).(*resource)
		if r.users+r.old+r.waiting > 0 {
			busy = append(busy, r)
			continue
		}
		m.floor = max(m.floor, r.highest)
		delete(m.resources, r.name)
	}
	for _, r := range busy {
		heap.Push(&m.order, r)
	}
}

// Len returns the number of remembered resources.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.resources)
}

// byToken is a heap ordered by the highest token, lowest first.
type byToken []*resource

func (h byToken) Len() int           { return len(h) }
func (h byToken) Less(i, j int) bool { return h[i].highest < h[j].highest }
func (h byToken) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byToken) Push(x any) {
	r := x.(*resource)
	r.index = len(*h)
	*h = append(*h, r)
}

func (h *byToken) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
