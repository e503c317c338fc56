package fence

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"sync"
)

const defaultMost = 100_000

var errNilContext = errors.New("fence: the context is nil")

// Memory is a Guard in the memory of the one process that owns the resource. A
// restart forgets what it has seen, so what outlasts the process must keep the tokens
// beside what they protect. The zero Memory is one of NewMemory(0); it must not be
// copied after its first use. Its methods are safe for concurrent use.
type Memory struct {
	most int // 0: the default

	mu        sync.Mutex           // guards all below
	resources map[string]*resource // nil before the first
	order     byToken
	floor     uint64 // the highest token of those that were forgotten
}

// resource is what is known of one.
type resource struct {
	name    string
	highest uint64
	users   int           // under way, with the highest token
	drained chan struct{} // closed when the users of lower tokens have left; nil if there are none
	old     int           // of lower tokens, under way
	waiting int           // for those to leave
	index   int           // in order
}

var _ Guard = (*Memory)(nil)

// NewMemory returns a Guard that remembers the highest tokens of that many resources,
// 100,000 if it is not above 0. Beyond, it forgets those of the lowest tokens, but not
// that there were such: a resource that it does not know is taken to have seen the
// highest of all that it forgot. That lets in no stale token, and refuses a good one
// only if it is older than those of all resources that are remembered, and its lock
// was held since without using the resource; for tokens that are times, as those of
// the stores here. Resources in use are never forgotten.
func NewMemory(resources int) *Memory {
	return &Memory{most: max(resources, 0)}
}

// Enter implements [Guard]. A nil ctx is an error too.
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
	r, err := m.see(name, token)
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

// see returns a resource that has seen the token from now on. The caller holds mu.
func (m *Memory) see(name string, token uint64) (*resource, error) {
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

// await waits until those with lower tokens have left. The caller holds mu, which is
// free meanwhile.
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

// makeRoom forgets resources until there is room for one more. The caller holds mu.
func (m *Memory) makeRoom() {
	var busy []*resource
	most := cmp.Or(m.most, defaultMost)
	for len(m.resources) >= most && len(m.order) > 0 {
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

// Len returns the number of resources that are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.resources)
}

// byToken is a heap with the lowest token first.
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
