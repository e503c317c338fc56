// The payloads, names and TTLs of messages.

package natsstore

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// The states of a lock in a record.
const (
	held = "held"
	kept = "kept" // released before its MinHold had passed, and taken by nobody
	free = "free" // released; the message stays for markerTTL, because a stream cannot compare and delete
)

// record is the payload of a message.
type record struct {
	State    string `json:"state"`
	Owner    string `json:"owner,omitempty"`
	Token    uint64 `json:"token,omitempty"` // 0 in the message that grants the lock: its own sequence
	TTL      int64  `json:"ttl"`             // of the lease, in ms
	Metadata []byte `json:"metadata,omitempty"`
}

// entry is the last message of a subject.
type entry struct {
	record
	seq  uint64    // 0 if there is none
	time time.Time // when the server stored the message, by its clock
}

// heldBy reports whether the owner holds the lock.
func (e *entry) heldBy(owner string) bool { return e.seq != 0 && e.State == held && e.Owner == owner }

// isOf reports whether the entry is the last message of a lease.
func (e *entry) isOf(l driver.Lease) bool { return e.heldBy(l.Owner) && e.Token == l.Token }

// isFree reports whether the lock can be taken.
func (e *entry) isFree() bool { return e.seq == 0 || e.State == free }

// left returns how long the lock stays taken if it is not renewed.
func (e *entry) left(serverNow time.Time) time.Duration {
	ttl := time.Duration(e.TTL) * time.Millisecond
	return min(max(e.time.Add(ttl).Sub(serverNow), time.Millisecond), ttl)
}

// decode returns the entry of a message. The error is driver.ErrWrongType if it is not one of this
// package.
func decode(m *jetstream.RawStreamMsg) (entry, error) {
	e := entry{seq: m.Sequence, time: m.Time}
	err := json.Unmarshal(m.Data, &e.record)
	if err != nil || e.State != held && e.State != kept && e.State != free || e.State == held && e.Owner == "" {
		return entry{}, driver.ErrWrongType
	}
	if e.Token == 0 && e.State == held {
		e.Token = e.seq
	}
	return e, nil
}

func encode(r record) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // no record fails
	}
	return text
}

// encodeName returns a name as one token of a subject. Names have any bytes, and tokens do not.
func encodeName(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// serverTTL returns the TTL of a message that lasts for d at least. The server rounds down to
// seconds, and refuses less than one.
func serverTTL(d time.Duration) time.Duration {
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}
