// This file is about how the types of this package are printed, logged and marshalled.

package lock

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// The types of this package can be printed, logged and marshalled. They show what they name
// and no owners, which are secrets.

// description is how the kinds of locks are shown.
type description struct {
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Limit   int    `json:"limit,omitzero"`   // of a Semaphore
	Members int    `json:"members,omitzero"` // of a Batch
	Name    string `json:"name,omitzero"`    // of a candidate in an Election
}

func (d description) String() string {
	s := d.Kind + " " + basic.Quote(d.Key)
	switch {
	case d.Limit != 0:
		s += fmt.Sprintf(" of %d permits", d.Limit)
	case d.Members != 0:
		s += fmt.Sprintf(" of %d members", d.Members)
	case d.Name != "":
		s += " for " + basic.Quote(d.Name)
	}
	return s
}

// goString is for %#v.
func (d description) goString() string { return "lock: " + d.String() }

func (d description) logValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", d.Kind), slog.String("key", d.Key)}
	switch {
	case d.Limit != 0:
		attrs = append(attrs, slog.Int("limit", d.Limit))
	case d.Members != 0:
		attrs = append(attrs, slog.Int("members", d.Members))
	case d.Name != "":
		attrs = append(attrs, slog.String("name", d.Name))
	}
	return slog.GroupValue(attrs...)
}

func (m *Mutex) describe() description     { return description{Kind: "mutex", Key: m.Key()} }
func (m *RWMutex) describe() description   { return description{Kind: "rwmutex", Key: m.Key()} }
func (r *Reentrant) describe() description { return description{Kind: "reentrant", Key: r.Key()} }
func (s *Semaphore) describe() description {
	return description{Kind: "semaphore", Key: s.Key(), Limit: s.Limit()}
}

func (b *Batch) describe() description {
	if b == nil {
		return description{Kind: "batch"}
	}
	return description{Kind: "batch", Key: b.group, Members: len(driver.Request{Attrs: b.extra}.Members())}
}

func (e *Election) describe() description {
	if e == nil {
		return description{Kind: "election"}
	}
	return description{Kind: "election", Key: e.key, Name: e.name}
}

// String implements fmt.Stringer.
func (m *Mutex) String() string { return m.describe().String() }

// GoString implements fmt.GoStringer.
func (m *Mutex) GoString() string { return m.describe().goString() }

// LogValue implements slog.LogValuer.
func (m *Mutex) LogValue() slog.Value { return m.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (m *Mutex) MarshalJSON() ([]byte, error) { return json.Marshal(m.describe()) }

// String implements fmt.Stringer.
func (m *RWMutex) String() string { return m.describe().String() }

// GoString implements fmt.GoStringer.
func (m *RWMutex) GoString() string { return m.describe().goString() }

// LogValue implements slog.LogValuer.
func (m *RWMutex) LogValue() slog.Value { return m.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (m *RWMutex) MarshalJSON() ([]byte, error) { return json.Marshal(m.describe()) }

// String implements fmt.Stringer.
func (r *Reentrant) String() string { return r.describe().String() }

// GoString implements fmt.GoStringer.
func (r *Reentrant) GoString() string { return r.describe().goString() }

// LogValue implements slog.LogValuer.
func (r *Reentrant) LogValue() slog.Value { return r.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (r *Reentrant) MarshalJSON() ([]byte, error) { return json.Marshal(r.describe()) }

// String implements fmt.Stringer.
func (s *Semaphore) String() string { return s.describe().String() }

// GoString implements fmt.GoStringer.
func (s *Semaphore) GoString() string { return s.describe().goString() }

// LogValue implements slog.LogValuer.
func (s *Semaphore) LogValue() slog.Value { return s.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (s *Semaphore) MarshalJSON() ([]byte, error) { return json.Marshal(s.describe()) }

// String implements fmt.Stringer.
func (b *Batch) String() string { return b.describe().String() }

// GoString implements fmt.GoStringer.
func (b *Batch) GoString() string { return b.describe().goString() }

// LogValue implements slog.LogValuer.
func (b *Batch) LogValue() slog.Value { return b.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (b *Batch) MarshalJSON() ([]byte, error) { return json.Marshal(b.describe()) }

// String implements fmt.Stringer.
func (e *Election) String() string { return e.describe().String() }

// GoString implements fmt.GoStringer.
func (e *Election) GoString() string { return e.describe().goString() }

// LogValue implements slog.LogValuer.
func (e *Election) LogValue() slog.Value { return e.describe().logValue() }

// MarshalJSON implements json.Marshaler.
func (e *Election) MarshalJSON() ([]byte, error) { return json.Marshal(e.describe()) }

// String returns the locks.
func (m *multi) String() string {
	names := make([]string, len(m.locks))
	for i, l := range m.locks {
		names[i] = fmt.Sprintf("%T", l)
		if named, ok := l.(fmt.Stringer); ok {
			names[i] = named.String()
		}
	}
	return "multi of " + strings.Join(names, ", ")
}

// heldJSON is a Held as an object. Ended is set if the lock is not held.
type heldJSON struct {
	Key      string    `json:"key"`
	Token    uint64    `json:"token,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Ended    string    `json:"ended,omitzero"`
}

func (h *Held) describe() heldJSON {
	d := heldJSON{Key: h.Key(), Token: h.Token(), Deadline: h.Deadline()}
	if err := h.Err(); err != nil {
		d.Deadline, d.Ended = time.Time{}, err.Error()
	}
	return d
}

// GoString implements fmt.GoStringer.
func (h *Held) GoString() string { return "lock: " + h.String() }

// LogValue returns the key, the token, and the deadline of a held lock or why it is not held.
func (h *Held) LogValue() slog.Value {
	d := h.describe()
	attrs := []slog.Attr{slog.String("key", d.Key), slog.Uint64("token", d.Token)}
	if d.Ended != "" {
		return slog.GroupValue(append(attrs, slog.String("ended", d.Ended))...)
	}
	return slog.GroupValue(append(attrs, slog.Time("deadline", d.Deadline))...)
}

// MarshalJSON returns the attributes of LogValue as an object.
func (h *Held) MarshalJSON() ([]byte, error) { return json.Marshal(h.describe()) }

// LogValue returns the TTL of the client's locks, how many of them are held, and how many
// calls of Lock wait.
func (c *Client) LogValue() slog.Value {
	s := c.Stats()
	return slog.GroupValue(slog.Duration("ttl", c.ttl()), slog.Int("held", s.Renewal.Held), slog.Int("waiting", s.Waiting))
}

// MarshalJSON returns the attributes of LogValue as an object, the TTL in nanoseconds.
func (c *Client) MarshalJSON() ([]byte, error) {
	s := c.Stats()
	return json.Marshal(struct {
		TTL     time.Duration `json:"ttl"`
		Held    int           `json:"held"`
		Waiting int           `json:"waiting"`
	}{c.ttl(), s.Renewal.Held, s.Waiting})
}

func (c *Client) ttl() time.Duration {
	if c == nil {
		return 0
	}
	return c.terms.TTL
}

// String returns the most important figures on one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d waiting, %d releasing, %v", s.Waiting, s.Releasing, s.Renewal)
}

// LogValue returns all figures as a group.
func (s Stats) LogValue() slog.Value {
	r := s.Replicas
	replicas := slog.Group("replicas", slog.Uint64("enough", r.Enough), slog.Uint64("tooFew", r.TooFew), slog.Uint64("unanswered", r.Unanswered))
	return slog.GroupValue(slog.Int("waiting", s.Waiting), slog.Int("releasing", s.Releasing), replicas, slog.Any("renewal", s.Renewal))
}
