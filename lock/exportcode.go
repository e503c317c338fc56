// This file is about the string of Export: its format and its check.

package lock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// The string of Held.Export is exportPrefix and then, in base64:
//
//	bytes      content
//	1          mode
//	1          flags: 1 = Unanswered
//	varint     token
//	varint     what was left of the MinHold at Export, in ms; 0 = none
//	varint     limit, then permits
//	text       key, owner, metadata: each a varint with its length, and its bytes
//	varint     number of members, and a text for each
//	text       state of the store
//	8          the first bytes of the SHA-256 of exportPrefix and all bytes above
//
// The digest finds strings that were cut off or changed by mistake. It is no signature: whoever
// can write to the store can make a string, too.
const (
	exportPrefix = "lwlease1."
	exportSum    = 8
	maxExport    = 2 << 20
)

// exportedLease is what the string of Held.Export says.
type exportedLease struct {
	lease driver.Lease  // without a KeepUntil, which is an instant on the clock of one process
	rest  time.Duration // for how long a release at the moment of Export would have kept the lock, in whole ms
	state []byte        // of the store
}

// encode returns the string.
func (e *exportedLease) encode() string {
	l := &e.lease
	b := []byte{byte(l.Mode), 0}
	if l.Unanswered {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, l.Token)
	var attrs driver.Attrs
	if l.Attrs != nil {
		attrs = *l.Attrs
	}
	for _, n := range []uint64{uint64(e.rest / time.Millisecond), uint64(attrs.Limit), uint64(attrs.Permits)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, text := range []string{l.Key, l.Owner, attrs.Metadata} {
		b = appendText(b, text)
	}
	b = binary.AppendUvarint(b, uint64(len(attrs.Members)))
	for _, member := range attrs.Members {
		b = appendText(b, member)
	}
	b = appendText(b, string(e.state))
	b = append(b, exportDigest(b)...)
	return exportPrefix + base64.RawURLEncoding.EncodeToString(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func exportDigest(b []byte) []byte {
	h := sha256.New()
	h.Write([]byte(exportPrefix))
	h.Write(b)
	return h.Sum(nil)[:exportSum]
}

// decodeExported reads a string of encode. It accepts only what encode returns for the lease of a
// client. Its errors do not show the string.
func decodeExported(text string) (*exportedLease, error) {
	encoded, ok := strings.CutPrefix(text, exportPrefix)
	if !ok || len(text) > maxExport || strings.ContainsAny(encoded, "\r\n") { // base64 skips line ends
		return nil, ErrBadExport
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) < exportSum || string(exportDigest(b[:len(b)-exportSum])) != string(b[len(b)-exportSum:]) {
		return nil, ErrBadExport
	}
	r := exportReader{rest: b[:len(b)-exportSum]}
	var e exportedLease
	l := &e.lease
	l.Mode = driver.Mode(r.byte())
	flags := r.byte()
	l.Unanswered = flags == 1
	l.Token = r.number()
	rest := r.number()
	e.rest = time.Duration(min(rest, maxRest)) * time.Millisecond
	var attrs driver.Attrs
	attrs.Limit, attrs.Permits = r.int(MaxPermits), r.int(MaxPermits)
	l.Key, l.Owner, attrs.Metadata = r.text(), r.text(), r.text()
	if n := r.int(MaxMembers); n > 0 && r.err == nil {
		attrs.Members = make([]string, n)
		for i := range attrs.Members {
			attrs.Members[i] = r.text()
		}
	}
	e.state = []byte(r.text())
	if attrs.Limit != 0 || attrs.Permits != 0 || attrs.Metadata != "" || attrs.Members != nil {
		l.Attrs = &attrs
	}
	if r.err != nil || len(r.rest) > 0 || flags > 1 || rest > maxRest || len(e.state) > driver.MaxStateLen {
		return nil, ErrBadExport
	}
	if err := e.check(&attrs); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadExport, basic.Unprefixed(err))
	}
	return &e, nil
}

// maxRest is the highest MinHold, in ms.
const maxRest = uint64(MaxTTL / time.Millisecond)

// check checks what a client checks before it acquires a lock.
func (e *exportedLease) check(attrs *driver.Attrs) error {
	l := &e.lease
	if err := checkKey(l.Key); err != nil {
		return err
	}
	switch {
	case l.Mode > driver.Members:
		return errors.New("unknown mode")
	case !isOwner(l.Owner):
		return errors.New("no owner")
	case len(attrs.Metadata) > MaxMetadataLen:
		return errors.New("too much metadata")
	case (l.Mode == driver.Permit) != (attrs.Limit > 0) || attrs.Permits > attrs.Limit:
		return errors.New("bad permits")
	case (l.Mode == driver.Members) != (len(attrs.Members) > 0):
		return errors.New("bad members")
	case e.rest > 0 && !canHaveMinHold(l.Mode):
		return errors.New("bad MinHold")
	case l.Mode != driver.Members:
		return nil
	}
	for i := 1; i < len(attrs.Members); i++ {
		if attrs.Members[i-1] >= attrs.Members[i] {
			return errors.New("members out of order")
		}
	}
	return checkBatchMembers(attrs.Members)
}

// isOwner reports whether an owner has the form of those of core.owner.
func isOwner(owner string) bool {
	if len(owner) != ownerLen || owner[idLen] != ':' {
		return false
	}
	for i := range len(owner) {
		c := owner[i]
		letter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
		if !letter && i != idLen {
			return false
		}
	}
	return true
}

// ownerLen is the number of bytes of the owners of core.owner.
const ownerLen = idLen + 1 + (16*8+5)/6

// exportReader reads the bytes of an exported lease. Its err is set after the first failure.
type exportReader struct {
	rest []byte
	err  error
}

func (r *exportReader) byte() byte {
	if len(r.rest) == 0 {
		r.err = ErrBadExport
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *exportReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || size != len(binary.AppendUvarint(nil, n)) { // there is one form of each number
		r.rest, r.err = nil, ErrBadExport
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *exportReader) int(limit int) int {
	n := r.number()
	if n > uint64(limit) {
		r.err = ErrBadExport
		return 0
	}
	return int(n)
}

func (r *exportReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.err = nil, ErrBadExport
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}
